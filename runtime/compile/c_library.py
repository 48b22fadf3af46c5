"""Functions of the C library that kernels and the executor call through their addresses."""

from __future__ import annotations

import ctypes
import sys
import time
from functools import cache
from typing import Any, Final

from nnefc.kernels.abi import LIBM
from nnefc.support.errors import NnefError

_COARSE: Final = 6
"""`CLOCK_MONOTONIC_COARSE` of Linux: reading it takes 6 ns; it advances every few milliseconds."""


def _functions(library: str | None) -> list[Any]:
    """The functions from a library, or from the libraries that the process has loaded (None)."""
    loaded = ctypes.CDLL(library)
    return [getattr(loaded, name) for name, _ in LIBM]


@cache
def libm_table() -> ctypes.Array[ctypes.c_int64]:
    """Addresses of the functions that `kernels.abi.LIBM` lists; lives as long as the process.

    Raises NnefError `internal/libm` if the C library is not found.
    """
    try:
        try:
            functions = _functions(None)
        except AttributeError:  # not loaded by the interpreter
            from ctypes.util import find_library

            functions = _functions(find_library("m"))
    except (OSError, AttributeError) as error:
        raise NnefError.of(
            "internal/libm", f"no C library with mathematical functions: {error}"
        ) from error
    addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
    return (ctypes.c_int64 * len(LIBM))(*addresses)


@cache
def clock() -> tuple[int, int]:
    """The address of `clock_gettime`, and the clock by which runs pause.

    Zeros if the C library is not found.
    """
    try:
        function = ctypes.CDLL(None).clock_gettime
    except (OSError, AttributeError, TypeError):
        return 0, 0
    number = _COARSE if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return ctypes.cast(function, ctypes.c_void_p).value or 0, number
