"""Pack weights into the order in which kernels read them.

A packing is a function of an array, which may be any view, and integer parameters.  It is
independent of graphs and of the memory of arrays: the caller allocates the result.  `inverse`
restores arrays from their packed forms.  A change of a result needs a new
`nnefc.support.package.PACKING_VERSION`: artifacts contain packed weights.
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
"""Integers, strings and nested tuples of them."""
Release = Callable[[], None]
"""Called after each chunk of the source, so that the caller can release its pages."""

NAMES: Final = ("block_quantized", "blocks_across", "direct", "panels", "winograd")


class Packing(Protocol):
    """The functions of a packing module."""

    def permutes(self, shape: tuple[int, ...], parameters: Parameters) -> bool:
        """Whether the result has each item of the source once, unchanged, and zeros."""
        ...

    def size(self, shape: tuple[int, ...], parameters: Parameters) -> int:
        """Items of the result for a source of this shape."""
        ...

    def fill(
        self, source: Array, parameters: Parameters, packed: Array, release: Release | None
    ) -> None:
        """Write all items of `packed`: flat, of the type of the source or a wider one."""
        ...


@cache
def packing(name: str) -> Packing:
    """The packing with a name of `NAMES`; KeyError for others."""
    if name not in NAMES:
        raise KeyError(name)
    return cast(Packing, import_module(f"nnefc.kernels.packing.{name}"))


def size(name: str, shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the result for a source of this shape."""
    return packing(name).size(shape, parameters)


def permutes(name: str, shape: tuple[int, ...], parameters: Parameters) -> bool:
    """Whether the result has each item of the source once, unchanged, and zeros."""
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
