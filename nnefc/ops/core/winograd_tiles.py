"""Output tiles of Winograd convolution (Lavin & Gray 2016), as passes and kernels cut them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

MAX_OUTPUTS: Final = 6
MAX_POINTS: Final = (10, 8)
"""Most points of a tile along a dimension, with one or two transformed dimensions.  More points lie
further from 0 and make rounding errors large."""

CODE_POINTS: Final = (8, 6)
"""Most points of a tile of codes along a dimension, with one or two transformed dimensions: the
transforms of codes and of weights fit into 16 bits."""
CODE_BITS: Final[Mapping[int, int]] = {4: 1, 5: 1, 6: 3, 7: 3, 8: 3}
"""By points of the largest tile along a dimension: the bits that sums lose there, because they are
computed modulo 2^32, times a multiple of 2^bits."""
LEAST_CODE_TAPS: Final = 3
"""Least taps of a dimension of codes that is transformed."""
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
    transformed = [t for t in code_pieces(taps) if t > 1]
    if not 1 <= len(transformed) <= len(CODE_POINTS) or min(transformed) < LEAST_CODE_TAPS:
        return []
    most = CODE_POINTS[len(transformed) - 1] - max(transformed) + 1
    bits = {tile: sum(CODE_BITS[tile + t - 1] for t in transformed) for tile in range(2, most + 1)}
    return [tile for tile, lost in bits.items() if CODE_RANGE * weights < 1 << 32 - lost]


def code_pieces(taps: Sequence[int]) -> tuple[int, ...]:
    """Taps along each dimension of the pieces that a window of codes is cut into.

    Transforms of more taps do not fit into 16 bits.  Along one dimension, pieces of 3 or 4 taps
    need the fewest products.
    """
    most = 3
    if sum(t > 1 for t in taps) == 1:
        products = {n: -(-max(taps) // n) / (CODE_POINTS[0] - n + 1) for n in (3, 4)}
        most = min(products, key=lambda n: products[n])
    return tuple(min(t, most) for t in taps)


def piece_taps(taps: int, piece: int) -> list[tuple[int, range]]:
    """(first tap, taps) of the pieces that cover a dimension: `piece` taps from the first one.

    The last piece may overlap the one before, so that no piece exceeds the window; it has only the
    taps that no other one has.
    """
    return [(min(t, taps - piece), range(t, min(t + piece, taps))) for t in range(0, taps, piece)]


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
