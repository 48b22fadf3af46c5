"""The C library's mathematical functions, as a table of addresses that kernels call through."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache

from nnefc.errors import NnefError
from nnefc.kernels.scalar import LIBM


@cache
def libm_table() -> ctypes.Array[ctypes.c_int64]:
    """Addresses of the functions that `kernels.scalar.LIBM` lists; lives as long as the process.

    Raises NnefError `internal/libm` if the C library is not found.
    """
    try:
        library = ctypes.CDLL(ctypes.util.find_library("m"))
        functions = [getattr(library, name) for name, _ in LIBM]
    except (OSError, AttributeError) as error:
        raise NnefError.of("internal/libm", f"no C library with mathematics: {error}") from error
    addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
    return (ctypes.c_int64 * len(LIBM))(*addresses)
