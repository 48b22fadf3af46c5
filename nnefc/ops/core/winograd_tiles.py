"""Output tiles of Winograd convolution (Lavin & Gray 2016), as passes and kernels cut them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

MAX_OUTPUTS: Final = 6
MAX_POINTS: Final = (10, 8)
"""Most points of a tile along a dimension, with one or two transformed dimensions.  More points lie
further from 0 and make rounding errors large."""

CODE_TAPS: Final = 3
"""Taps along a dimension whose transforms of codes and weights fit into 16 bits."""
CODE_TILES: Final[Mapping[int, int]] = {2: 1, 3: 1, 4: 3}
"""Most outputs of a tile of codes along a dimension, and the bits that its sums lose there: they
are computed modulo 2^32, times a multiple of 2^bits."""
CODE_RANGE: Final = 255
"""The difference of the largest and the smallest code."""


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


def code_tiles(taps: Sequence[int], weights: int) -> list[int]:
    """Most outputs of the tiles, along a dimension, that compute exact sums of codes.

    `taps`: as of `largest_tile`; `weights`: the largest sum of the sizes of an output's weights.
    """
    transformed = [t for t in taps if t > 1]
    if not 1 <= len(transformed) <= 2 or any(t != CODE_TAPS for t in transformed):
        return []
    return [
        tile
        for tile, bits in CODE_TILES.items()
        if CODE_RANGE * weights < 1 << 32 - bits * len(transformed)
    ]


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
