"""Winograd's exact matrices, and tilings that cover all outputs."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.convolution.winograd_matrices import (
    Matrix,
    filter_matrix,
    input_matrix,
    output_matrix,
    points,
)
from nnefc.lower.convolution.winograd_tiles import Tiling
from nnefc.ops.core.winograd_tiles import balanced, largest_tile
from tests.helpers.examples import examples

SETTINGS = examples(0.6)


def _times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * x for a, x in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@SETTINGS
@given(st.data())
def test_matrices_give_exactly_the_filtered_items(data: st.DataObject) -> None:
    taps = data.draw(st.integers(2, 7))
    m = data.draw(st.integers(1, largest_tile([taps])))
    n = points(m, taps)
    items = st.integers(-99, 99).map(Fraction)
    x = data.draw(st.lists(items, min_size=n, max_size=n))
    w = data.draw(st.lists(items, min_size=taps, max_size=taps))
    products = [
        u * v
        for u, v in zip(
            _times(filter_matrix(n, taps), w), _times(input_matrix(m, taps), x), strict=True
        )
    ]
    expected = [sum((w[k] * x[i + k] for k in range(taps)), Fraction(0)) for i in range(m)]
    assert _times(output_matrix(m, taps), products) == expected


def test_tiles_of_all_sizes_share_transformed_filters() -> None:
    for taps in range(2, 8):
        largest = filter_matrix(points(largest_tile([taps]), taps), taps)
        for m in range(1, largest_tile([taps])):
            n = points(m, taps)
            assert filter_matrix(n, taps) == largest[:n]


# -- tilings


@SETTINGS
@given(st.integers(1, 300), st.integers(1, 6))
def test_balanced_sizes_are_few_and_nearly_equal(extent: int, most: int) -> None:
    sizes = balanced(extent, most)
    assert sum(sizes) == extent
    assert len(sizes) == -(-extent // most)
    assert sizes[-1] >= 1
    assert sizes[0] - sizes[-1] <= 1
    assert sizes == sorted(sizes, reverse=True)


@SETTINGS
@given(st.data())
def test_tiles_cover_every_output_once(data: st.DataObject) -> None:
    extent = st.integers(1, 20)
    outputs = data.draw(st.tuples(st.integers(1, 3), extent, extent))
    most = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    taps = data.draw(st.sampled_from([(3, 3), (3, 1), (1, 3)]))
    tiling = Tiling(outputs, most, taps)
    covered = np.zeros(outputs, int)
    for plane, (top, left, rows, columns) in zip(tiling.planes, tiling.tiles, strict=True):
        covered[plane, top : top + rows, left : left + columns] += 1
    assert (covered == 1).all()
    for part in tiling.parts(min(3, tiling.count)):
        numbers = np.arange(covered.size).reshape(outputs)
        some = slice(part.start, part.stop)
        tiles = zip(tiling.planes[some].tolist(), tiling.tiles[some].tolist(), strict=True)
        expected = [
            numbers[plane, top : top + rows, left : left + columns].ravel()
            for plane, (top, left, rows, columns) in tiles
        ]
        found = [n for pixels in tiling.pixels(part) for n in pixels]
        assert found == sorted(np.concatenate(expected).tolist())

    parts = data.draw(st.integers(1, tiling.count))
    items = data.draw(st.integers(1, 3))
    capacity = items * -(-tiling.count // parts)
    classes = tiling.classes(parts, items, capacity)
    down, across = tiling.grid
    for p, (part, runs) in enumerate(zip(tiling.parts(parts), tiling.runs(parts), strict=True)):
        found = [
            (tile, rows, columns)
            for first, end, rows, columns in runs.tolist()
            for tile in range(first, end)
        ]
        assert sorted(found) == [
            (tile, *tiling.tiles[tile, 2:].tolist()) for tile in range(part.start, part.stop)
        ]
        for element in range(down * across):
            i, j = divmod(element, across)
            have = [
                tile - part.start
                for tile, rows, columns in sorted(found)
                if points(rows, taps[0]) > i and points(columns, taps[1]) > j
            ]
            number = classes.members[element]
            count = classes.counts[p, number]
            listed = classes.tiles[p, number].tolist()
            assert listed[: count * items] == [
                n * len(part) + tile for n in range(items) for tile in have
            ]


def test_outputs_of_few_tiles_take_little_memory() -> None:
    tiling = Tiling((1, 3000, 300), (1, 1), (1, 1))
    part = next(tiling.parts(tiling.count // 4))
    tracemalloc.start()
    try:
        assert len(tiling.pixels(part)) == 1
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
