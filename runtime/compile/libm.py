"""The C library's mathematical functions, as a table of addresses that kernels call through."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from nnefc.kernels.abi import LIBM
from nnefc.support.errors import NnefError


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
