"""The clock by which runs pause."""

from __future__ import annotations

import ctypes
import sys
import time
from functools import cache
from typing import Final

_COARSE: Final = 6
"""`CLOCK_MONOTONIC_COARSE` of Linux: reading it takes 6 ns; it advances every few milliseconds."""


@cache
def clock() -> tuple[int, int]:
    """The address of `clock_gettime` and a clock for it; zeros if the C library is not found."""
    try:
        function = ctypes.CDLL(None).clock_gettime
    except (OSError, AttributeError, TypeError):
        return 0, 0
    number = _COARSE if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return ctypes.cast(function, ctypes.c_void_p).value or 0, number
