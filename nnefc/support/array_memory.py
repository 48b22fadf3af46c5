"""Memory of NumPy arrays: allocation, alignment, addresses, and which memory a view belongs to."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from nnefc.support.alignment import ALIGNMENT
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]

_LARGE_PAGES_FROM: Final = 4 << 20
_LARGE_PAGE: Final = 2 << 20

# -- allocation


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
    """An uninitialised array; the system commits its memory page by page on first use.

    Raises NnefError `limit/memory`, which names `what` the memory is for.
    """
    try:
        return np.empty(shape, dtype)
    except MemoryError:
        nbytes = math.prod(shape) * dtype.itemsize
        raise NnefError.of(
            "limit/memory", f"no memory for {what}: {nbytes:,} bytes are needed"
        ) from None


def copy(array: Array, what: str) -> Array:
    """A C-contiguous copy of `array`; raises NnefError as `empty` does."""
    result = empty(array.shape, array.dtype, what)
    result[...] = array
    return result


def aligned(nbytes: int, what: str) -> Array:
    """`nbytes` uninitialised bytes at a multiple of `ALIGNMENT`; raises NnefError as `empty`.

    NumPy asks for large pages for 4 MB and more.  These begin at one, since the first use of 2 MB
    of small pages takes 1 ms longer.
    """
    alignment = ALIGNMENT if nbytes < _LARGE_PAGES_FROM else _LARGE_PAGE
    memory = empty((nbytes + alignment,), np.dtype(np.uint8), what)
    start = -memory.ctypes.data % alignment
    return memory[start : start + nbytes]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any], what: str = "weights") -> Array:
    """`empty` at a multiple of `ALIGNMENT`, so that no vector crosses a cache line."""
    return aligned(math.prod(shape) * dtype.itemsize, what).view(dtype).reshape(shape)


# -- addresses


def _find_address() -> Callable[[Array], int]:
    """A function that returns the address of the first item of an array.

    `x.ctypes.data` takes 1.3 us.  In NumPy's C interface the data pointer is the first field after
    the object header, whose size differs between builds of Python.  Probing finds the field;
    reading it takes 0.3 us.
    """
    probes = [np.empty(3), np.empty((2, 2), np.int8)]
    word = ctypes.c_size_t.from_address
    for offset in range(8, 64, 8):
        if all(word(id(x) + offset).value == x.ctypes.data for x in probes):
            return lambda x: word(id(x) + offset).value
    return lambda x: x.ctypes.data


address: Callable[[Array], int] = _find_address()


def is_ready(array: Array) -> bool:
    """Whether kernels can use the memory of `array` directly: C-contiguous and aligned items."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


# -- identity of memory


def owner(array: Array) -> Array:
    """The array at the end of the chain of bases of a view: the one that holds the memory."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


def view_key(array: Array) -> tuple[Hashable, ...]:
    """A key that is equal for views of the same items: address, shape, strides and type."""
    return address(array), array.shape, array.strides, array.dtype
