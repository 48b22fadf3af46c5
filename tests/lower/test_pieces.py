"""How rows are cut into pieces."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from nnefc.lower.blocked.plane_pieces import LONG_ROW, piece_cost, split_width

HEIGHTS = [(1, 2, 3, 4, 5, 6, 7, 8, 14), (1, 2, 3, 4, 5, 6), (1, 3, 14), (1,)]


@pytest.mark.parametrize("heights", HEIGHTS)
def test_no_other_heights_are_less_work(heights: tuple[int, ...]) -> None:
    @cache
    def least(width: int) -> int:
        return min((least(width - h) + piece_cost((h,)) for h in heights if h <= width), default=0)

    for width in itertools.chain(range(60), range(LONG_ROW - 30, LONG_ROW + 60)):
        found = split_width(width, heights)
        assert sum(found) == width
        assert set(found) <= set(heights)
        assert piece_cost(found) == least(width)


def test_long_rows_are_cut_at_once() -> None:
    found = split_width(10_000_001, HEIGHTS[0])
    assert sum(found) == 10_000_001
    assert piece_cost(found) < 10_000_001 * 16 / 14 * 1.001
