"""Records of the pieces of planes, and the division of rows into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.kernels.tile.piece_record import FIELDS
from nnefc.kernels.vector.item_types import NUMBER_BYTES

Records = npt.NDArray[np.int32]


NO_NUMBER: Final = np.zeros((), np.int32)
"""For pieces whose code reads no number."""


def piece_cost(heights: Iterable[int]) -> int:
    """Estimated steps per tap of pieces: a step per pixel, and an overhead per piece.

    Pieces of less than 4 pixels are bound by the latency of their sums.
    """
    return sum(max(h, 4) + 2 for h in heights)


LONG_ROW = 256
"""Of longer rows, only this many pixels are divided optimally; the rest has one height."""


@lru_cache(maxsize=256)
def split_width(width: int, heights: tuple[int, ...]) -> tuple[int, ...]:
    """Heights that add up to `width` with the least cost (dynamic programming)."""
    best = min(heights, key=lambda h: piece_cost((h,)) / h)
    whole = max(width - LONG_ROW, 0) // best
    rest = width - whole * best
    costs, firsts = [0], [0]
    own = [(h, piece_cost((h,))) for h in heights]
    for n in range(1, rest + 1):
        cost, first = min((costs[n - h] + each, h) for h, each in own if h <= n)
        costs.append(cost)
        firsts.append(first)
    chosen: list[int] = []
    while rest:
        chosen.append(firsts[rest])
        rest -= firsts[rest]
    return (*chosen, *(best,) * whole)


def bits_of(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The bits of numbers of at most `NUMBER_BYTES`, as fields of a table.

    Smaller numbers are filled up with zeros above their bits.
    """
    assert numbers.itemsize <= NUMBER_BYTES, f"{numbers.dtype} has more than {NUMBER_BYTES} bytes"
    return numbers.view(f"u{numbers.itemsize}").astype(np.uint32).view(np.int32)


def records(
    kind: Sequence[int] | npt.NDArray[np.int64],
    x: npt.NDArray[np.int64],
    y: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    first_tap: int | npt.NDArray[np.int64],
    taps: int | npt.NDArray[np.int64],
    number: npt.NDArray[Any] = NO_NUMBER,
) -> Records:
    """int32 [pieces, FIELDS], see `nnefc.kernels.tile.plane_pieces`.

    `number`: in the type of the accumulator, see `bits_of`.
    """
    table = np.empty((x.size, FIELDS), np.int32)
    for i, column in enumerate((kind, x, y, other, first_tap, taps)):
        table[:, i] = np.ravel(column)
    table[:, 6] = bits_of(number)
    return table
