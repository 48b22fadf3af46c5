"""Weighted sums of rows of a table against a plain float64 loop."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.movement.weighted_gather import HELD
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run


def expected(
    table: Array,
    rows: Array,
    row_weights: Array,
    columns: Array,
    column_weights: Array,
    cells: tuple[int, int],
) -> Array:
    heights, widths = rows.shape[1] // cells[0], columns.shape[1] // cells[1]
    y = np.zeros((len(rows), *cells, table.shape[1]))
    for n, i, j in product(range(len(rows)), range(rows.shape[1]), range(columns.shape[1])):
        weight = float(row_weights[n, i]) * float(column_weights[n, j])
        if weight != 0:
            place = min(max(int(rows[n, i]) + int(columns[n, j]), 0), len(table) - 1)
            y[n, i // heights, j // widths] += weight * table[place].astype(np.float64)
    return y


@examples(0.6)
@given(st.data())
def test_sums_of_weighted_rows(data: st.DataObject) -> None:
    """Numbers of taps around those that are collected; positions outside; infinite items."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    regions, extent = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 30))
    cells = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    table = normal(1, extent, data.draw(st.sampled_from([1, 7, 64, 100])), dtype=dtype)
    taps = [count * data.draw(st.sampled_from([1, 2, 3, HELD // 4, HELD + 1])) for count in cells]
    rows, columns = (random.integers(-2, extent, (regions, number)) for number in taps)
    weights = [random.standard_normal((regions, number)).astype(dtype) for number in taps]
    if data.draw(st.booleans()):  # rows without a weight may be infinite
        table[0] = np.inf
        columns = columns * 0
        weights[0][rows <= 0] = 0
    threads = data.draw(st.sampled_from([1, 3]))
    operands = table, rows, weights[0], columns, weights[1]
    got = run("weighted_gather", *operands, cells=cells, threads=threads)
    want = expected(*operands, cells)
    # items may cancel: the error is relative to the terms of a sum
    largest = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * largest)
