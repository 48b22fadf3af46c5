"""Output tiles of Winograd convolution (Lavin & Gray 2016), as passes and kernels cut them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_OUTPUTS: Final = 6
MAX_POINTS: Final = (10, 8)
"""Most points of a tile along a dimension, with one or two transformed dimensions.  More points lie
further from 0 and make rounding errors large."""


def largest_tile(taps: Sequence[int]) -> int:
    """The most outputs of a tile along a dimension; `taps`: taps of the filter by dimension.

    One or two dimensions may have several taps; dimensions with one tap are not transformed.
    Returns 0 if no tile fits.
    """
    transformed = [t for t in taps if t > 1]
    if not 1 <= len(transformed) <= len(MAX_POINTS):
        return 0
    most = MAX_POINTS[len(transformed) - 1] - max(transformed) + 1
    return max(min(most, MAX_OUTPUTS), 0)


def balanced(extent: int, most: int) -> list[int]:
    """Sizes of at most `most` that add up to `extent`: as few as possible, nearly equal.

    They differ by at most one; larger ones come first.  Every cut into that number of tiles needs
    the same number of products; this one has the smallest largest tile and thus the smallest
    transformed filter.
    """
    count = -(-extent // most)
    return [extent // count + (i < extent % count) for i in range(count)]


def phase_tiles(extent: int, dilation: int, most: int) -> list[tuple[int, int]]:
    """(first output, outputs) of the tiles along a dimension with stride 1, in order of phases.

    A dilated convolution is one undilated convolution per phase: outputs that are `dilation` apart,
    and inputs that are `dilation` apart.  A tile has outputs of one phase.
    """
    tiles: list[tuple[int, int]] = []
    for phase in range(min(dilation, extent)):
        first = phase
        for outputs in balanced(-(-(extent - phase) // dilation), most):
            tiles.append((first, outputs))
            first += outputs * dilation
    return tiles
