"""Memory for weights: arrays that are small share blocks, which the system backs with large pages.

Reading weights once takes half as long then as from pages of 4 KiB, each of which has to be found.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from nnefc.hardware import ALIGNMENT
from nnefc.runtime.tensors import aligned

Array = np.ndarray[Any, Any]

BLOCK: Final = 16 << 20
"""Bytes of a block, which lives as long as an array in it."""
_SMALL: Final = 4 << 20
"""NumPy asks for large pages for arrays of so many bytes."""


class _Own(threading.local):
    """What is left of the block that a thread takes memory of: threads need no lock for it."""

    rest: Array = np.empty(0, np.uint8)


_own: Final = _Own()


def memory(nbytes: int, what: str) -> Array:
    """So many bytes, at an address that is a multiple of `ALIGNMENT`.

    Raises NnefError `limit/memory`, which says for what, if there is not enough.
    """
    if nbytes >= _SMALL:
        return aligned(nbytes, what)
    if _own.rest.size < nbytes:
        _own.rest = aligned(BLOCK, what)
    found = _own.rest[:nbytes]
    _own.rest = _own.rest[nbytes + -nbytes % ALIGNMENT :]
    return found
