"""Properties of window dimensions agree with their tables."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.core.window_arithmetic import BORDERS
from nnefc.program.tables.window_taps import WindowDimension, evenly_spaced_runs
from tests.helpers.examples import examples

EXTENT = st.integers(1, 7)
DIMENSIONS = st.builds(
    WindowDimension,
    inputs=EXTENT,
    outputs=EXTENT,
    taps=st.integers(1, 7),
    padding=st.integers(-2, 3),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    border=st.sampled_from(BORDERS),
    reverse=st.booleans(),
)


@examples(30)
@given(DIMENSIONS)
def test_properties_are_those_of_the_table(dimension: WindowDimension) -> None:
    table, every = dimension.table(), np.arange(dimension.inputs)
    if dimension.is_identity:
        assert np.array_equal(table, every[:, None])
    if dimension.is_full_reduction:
        assert np.array_equal(table, every[None])
    if dimension.is_repetition:
        assert ((table >= 0).sum(1) == 1).all()


def test_common_dimensions_are_recognised() -> None:
    assert WindowDimension(5, 5).is_identity
    assert WindowDimension(1, 1, stride=2).is_identity
    assert WindowDimension(5, 1, 5).is_full_reduction
    assert WindowDimension(5, 15, 3, stride=3, reverse=True).is_repetition
    assert WindowDimension(5, 14, 3, 1, 3, reverse=True).is_repetition


@examples(5)
@given(DIMENSIONS)
def test_runs_are_the_columns_of_the_table(dimension: WindowDimension) -> None:
    table, pitch = dimension.table(), 4
    (words,) = evenly_spaced_runs(dimension, pitch)
    heads, runs = words[: dimension.taps + 1], words[dimension.taps + 1 :].reshape(-1, 4)
    assert heads[0] == 0
    assert heads[-1] == len(runs)
    for tap in range(dimension.taps):
        column = np.full(dimension.outputs, -2)
        for first, end, source, step in runs[heads[tap] : heads[tap + 1]].tolist():
            assert first < end
            assert (column[first:end] == -2).all()
            column[first:end] = -1
            if source >= 0:
                column[first:end] = (source + np.arange(end - first) * step) // pitch
        np.testing.assert_array_equal(column, np.maximum(table[:, tap], -1))
