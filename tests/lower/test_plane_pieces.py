"""Division of rows into pieces."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from nnefc.lower.blocked.plane_pieces import LONG_ROW, piece_cost, split_width

HEIGHTS = [(1, 2, 3, 4, 5, 6, 7, 8, 14), (1, 2, 3, 4, 5, 6), (1, 3, 14), (1,)]


@pytest.mark.parametrize("heights", HEIGHTS)
def test_heights_have_the_least_cost(heights: tuple[int, ...]) -> None:
    @cache
    def least(width: int) -> int:
        return min((least(width - h) + piece_cost((h,)) for h in heights if h <= width), default=0)

    for width in itertools.chain(range(60), range(LONG_ROW - 30, LONG_ROW + 60)):
        result = split_width(width, heights)
        assert sum(result) == width
        assert set(result) <= set(heights)
        assert piece_cost(result) == least(width)


def test_long_rows_are_divided_quickly() -> None:
    result = split_width(10_000_001, HEIGHTS[0])
    assert sum(result) == 10_000_001
    assert piece_cost(result) < 10_000_001 * 16 / 14 * 1.001
