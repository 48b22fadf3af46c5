"""What a kernel is: a family of native functions, generic in shape, specialised by arguments.

A kernel is compiled from a Python function `kernel(bases, params, first, last)`
of four 64-bit integers: the address of a table of base addresses, the address of
the launch's parameters, and the range of tiles to do.  It reads raw memory, never
touches Python, and does not know a shape before it runs.

Parameters are 64-bit words: see `nnefc.kernels.parameters`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from nnefc.support.digests import blake2b
from nnefc.support.registration import is_taken

KernelFunction = Callable[[int, int, int, int], None]
Family = Callable[..., KernelFunction]

Relatives = Callable[..., "Iterable[Kernel]"]

_families: dict[str, Family] = {}
_relatives: dict[str, Relatives] = {}
_moving: set[str] = set()


def family(
    name: str, relatives: Relatives | None = None, *, moves: bool = False
) -> Callable[[Family], Family]:
    """Register `make(*arguments) -> kernel function` as a family of kernels.

    `relatives(*arguments)`: kernels that the next networks are likely to need, which may be
    compiled with this one where there are processes for it.
    `moves`: the kernels prepare operands or arrange results, and compute nothing.
    """

    def register(make: Family) -> Family:
        if is_taken(_families.get(name), make):
            raise ValueError(f"kernel family {name!r} is registered already")
        _families[name] = make
        if moves:
            _moving.add(name)
        if relatives is not None:
            _relatives[name] = relatives
        return make

    return register


class Kernel(NamedTuple):
    """One member of a family; equal kernels are compiled once."""

    family: str
    arguments: tuple[Hashable, ...] = ()

    @property
    def symbol(self) -> str:
        """A C identifier that names this kernel: family and a digest of the arguments."""
        digest = blake2b(repr(self.arguments).encode(), digest_size=8).hexdigest()
        return f"nnefc_{self.family.replace('.', '_')}_{digest}"

    def function(self) -> KernelFunction:
        """The Python function to compile.

        Family `p.x.y` registers itself when module `nnefc.kernels.p.x` is imported.
        """
        return self._registered(_families)[self.family](*self.arguments)

    @property
    def moves(self) -> bool:
        """Whether it moves items and computes nothing; see `family`."""
        self._registered(_families)
        return self.family in _moving

    def relatives(self) -> list[Kernel]:
        """What may be compiled with it; see `family`."""
        relatives = self._registered(_relatives).get(self.family)
        return [] if relatives is None else [k for k in relatives(*self.arguments) if k != self]

    def _registered(self, table: dict[str, Any]) -> dict[str, Any]:
        make = _families.get(self.family)
        # what an interrupted import has left behind may lack what was to come
        if make is None or make.__module__ not in sys.modules:
            importlib.import_module(f"nnefc.kernels.{self.family.rpartition('.')[0]}")
        return table
