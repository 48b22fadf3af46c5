"""What a kernel is: a family of native functions, generic in shape, specialised by arguments.

A kernel is compiled from a Python function `kernel(bases, params, first, last)`
of four 64-bit integers: the address of a table of base addresses, the address of
the launch's parameters, and the range of tiles to do.  It reads raw memory, never
touches Python, and does not know a shape before it runs.

Parameters are 64-bit words laid out by a `Layout`, which the kernel and whoever
launches it share, so that neither counts words by hand.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from nnefc.digests import blake2b
from nnefc.registered import is_taken

KernelFunction = Callable[[int, int, int, int], None]
Family = Callable[..., KernelFunction]

Relatives = Callable[..., "Iterable[Kernel]"]

_families: dict[str, Family] = {}
_relatives: dict[str, Relatives] = {}


def family(name: str, relatives: Relatives | None = None) -> Callable[[Family], Family]:
    """Register `make(*arguments) -> kernel function` as a family of kernels.

    `relatives(*arguments)`: kernels that the next networks are likely to need, which may be
    compiled with this one where there are processes for it.
    """

    def register(make: Family) -> Family:
        if is_taken(_families.get(name), make):
            raise ValueError(f"kernel family {name!r} is registered already")
        _families[name] = make
        if relatives is not None:
            _relatives[name] = relatives
        return make

    return register


@dataclass(frozen=True, slots=True)
class Kernel:
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

        Family `x.y` registers itself when module `nnefc.kernels.x` is imported.
        """
        return self._registered(_families)[self.family](*self.arguments)

    def relatives(self) -> list[Kernel]:
        """What may be compiled with it; see `family`."""
        relatives = self._registered(_relatives).get(self.family)
        return [] if relatives is None else [k for k in relatives(*self.arguments) if k != self]

    def _registered(self, table: dict[str, Any]) -> dict[str, Any]:
        make = _families.get(self.family)
        # what an interrupted import has left behind may lack what was to come
        if make is None or make.__module__ not in sys.modules:
            importlib.import_module(f"nnefc.kernels.{self.family.partition('.')[0]}")
        return table


Words = list[Any]
"""64-bit integers; a reference to memory stands in its two slots as (reference, None)."""


class Layout:
    """The parameter words of a kernel family.

    Fields are words by default.  `name:ref` is a reference to memory (two words: index
    into the base table, byte offset), `name:f64` a float in the bits of a word,
    `name:table` the byte offset, from the start of the parameters, of a variable number
    of words that follow the fixed part, `name:n` a row of n words.

        GATHER = Layout("x:ref y:ref rows size index:table scale:f64 strides:8")
        X, Y, ROWS, SIZE, INDEX, SCALE, STRIDES = GATHER.offsets   # byte offsets
        words = GATHER.pack(x=..., y=..., rows=3, size=4, index=[0, 2], ...)
    """

    def __init__(self, fields: str) -> None:
        self._fields: list[tuple[str, str]] = []
        offsets: list[int] = []
        size = 0
        for field in fields.split():
            name, _, kind = field.partition(":")
            self._fields.append((name, kind))
            offsets.append(8 * size)
            size += 2 if kind == "ref" else int(kind) if kind.isdigit() else 1
        self.offsets = tuple(offsets)
        self.nbytes = 8 * size
        """Size of the fixed part."""

    def pack(self, **values: Any) -> Words:
        """The words for one launch; every field must be given; they may depend on symbols."""
        from nnefc.symbolic import Extent, float_bits  # not needed to load a model

        def integer(value: Any) -> Any:
            return value if isinstance(value, Extent) else int(value)

        words: Words = []
        tables: Words = []
        for name, kind in self._fields:
            value = values.pop(name)
            if kind == "ref":
                words += [value, None]
            elif kind == "f64":
                words.append(float_bits(value))
            elif kind == "table":
                words.append(self.nbytes + 8 * len(tables))
                tables += map(integer, value)
            elif kind:
                row = list(map(integer, value))
                assert len(row) <= int(kind), f"{name}: {len(row)} words, room for {kind}"
                words += row + [0] * (int(kind) - len(row))
            else:
                words.append(integer(value))
        assert not values, f"no such fields: {', '.join(values)}"
        return words + tables
