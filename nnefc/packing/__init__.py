"""Weights in the order in which kernels read them.

A packing is a function of an array (which may be any view) and some integers.  Packings do not know
graphs, nor where arrays are: whoever has the memory for the result calls `pack`.  `inverse` gives
back the items of what was packed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Parameters = tuple[Any, ...]
"""Integers, and tuples of these."""
Release = Callable[[], None]
"""Called when some tens of megabytes of the source were read."""

NAMES: Final = ("blocks", "direct", "panels", "winograd")


class Packing(Protocol):
    """What a module of this package holds."""

    def permutes(self, shape: tuple[int, ...], parameters: Parameters) -> bool:
        """Whether the result is every item of the source once, as it is, and zeros."""
        ...

    def size(self, shape: tuple[int, ...], parameters: Parameters) -> int:
        """Items of the result for a source of this shape."""
        ...

    def fill(
        self, source: Array, parameters: Parameters, packed: Array, release: Release | None
    ) -> None:
        """Write all items of `packed`, which is flat, of the type of the source or a wider one."""
        ...


@cache
def packing(name: str) -> Packing:
    """The packing of a name out of `NAMES`."""
    if name not in NAMES:
        raise KeyError(name)
    return cast(Packing, import_module(f"nnefc.packing.{name}"))


def size(name: str, shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the result for a source of this shape."""
    return packing(name).size(shape, parameters)


def permutes(name: str, shape: tuple[int, ...], parameters: Parameters) -> bool:
    """Whether the result is every item of the source once, as it is, and zeros."""
    return packing(name).permutes(shape, parameters)


def pack(
    name: str,
    source: Array,
    parameters: Parameters,
    packed: Array,
    release: Release | None = None,
) -> None:
    """Write all items of `packed`: flat, contiguous, `size` items, of the type of the source or a
    wider one.
    """
    packing(name).fill(source, parameters, packed, release)
