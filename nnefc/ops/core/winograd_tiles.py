"""How Winograd's convolution cuts outputs into tiles: what its passes and kernels agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_OUTPUTS: Final = 6
MAX_POINTS: Final = (10, 8)
"""Of a tile along a dimension, if it has one that is transformed, or two: with more, and so with
more distant points, rounding errors become large."""


def largest_tile(taps: Sequence[int]) -> int:
    """The most outputs of a tile along a dimension, for a filter with so many taps along each.

    Dimensions with one tap are not transformed; one or two others are.  0: there is no such tile.
    """
    transformed = [t for t in taps if t > 1]
    if not 1 <= len(transformed) <= len(MAX_POINTS):
        return 0
    most = MAX_POINTS[len(transformed) - 1] - max(transformed) + 1
    return max(min(most, MAX_OUTPUTS), 0)


def balanced(extent: int, most: int) -> list[int]:
    """Sizes that add up to `extent`, as few as `most` allows, that differ by at most one.

    Larger ones come first.  All ways to cut an extent into so many tiles need equally many
    products; this one has the smallest largest tile, so the smallest transformed filter.
    """
    count = -(-extent // most)
    return [extent // count + (i < extent % count) for i in range(count)]
