"""Division of rows into pieces, and the numbers of their records."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from nnefc.program.tables.plane_records import LONG_ROW, bits_of, piece_cost, records, split_width

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


@pytest.mark.parametrize("item", ["float32", "int32", "int16", "int8", "uint8"])
def test_records_have_the_bits_of_numbers(item: str) -> None:
    numbers = np.array([-1.5, 0, 99] if item == "float32" else [-1, 0, 99]).astype(item)
    zeros = np.zeros(3, np.int64)
    table = records([1, 1, 1], zeros, zeros, zeros, 0, 1, numbers)
    fields = np.ascontiguousarray(table[:, -1]).view(np.uint8).reshape(3, 4)
    size = numbers.itemsize
    np.testing.assert_array_equal(np.ascontiguousarray(fields[:, :size]).view(item)[:, 0], numbers)
    assert not fields[:, size:].any()


def test_numbers_of_8_bytes_are_no_fields() -> None:
    with pytest.raises(AssertionError, match="float64 has more than 4 bytes"):
        bits_of(np.zeros(2))
