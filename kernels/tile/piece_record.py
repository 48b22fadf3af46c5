"""Records of pieces of planes, and the heights of pieces: what tables of pieces need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FIELDS: Final = 7


RECORD: Final = 4 * FIELDS
"""Bytes of a record."""


def heights(registers: int, others: int, columns: Callable[[int], int] = int) -> list[int]:
    """Numbers of pixels for which pieces have code: 1 to 8, and 14, if the registers suffice.

    `columns(pixels)`: registers for a piece; `others`: further registers in use.  1 is always
    included.
    """
    return [h for h in (*range(1, 9), 14) if h == 1 or columns(h) <= registers - others]
