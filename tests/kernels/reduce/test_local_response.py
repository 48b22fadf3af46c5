"""Local response normalisation against the formula in float64, between guard pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run


def _expected(x: Array, size: tuple[int, ...], alpha: float, beta: float, bias: float) -> Array:
    """The sum of squares by its definition: size // 2 items after the middle, the rest before."""
    squares = x.astype(np.float64) ** 2
    for axis, extent in enumerate(size):
        before = (extent - 1) // 2
        padding = [(0, 0)] * x.ndim
        padding[axis] = (before, extent - 1 - before)
        padded = np.pad(squares, padding)
        windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis)
        squares = windows.sum(-1)
    return x / (bias + alpha * squares / np.prod(size)) ** beta


@examples(0.8)
@given(st.data())
def test_any_window(data: st.DataObject) -> None:
    extent = st.one_of(st.integers(1, 6), st.sampled_from([17, 40]))
    shape = tuple(data.draw(st.lists(extent, min_size=1, max_size=4)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    size = [1] * len(shape)
    size[axis] = data.draw(st.integers(1, 7))
    if data.draw(st.integers(0, 4)) == 0:
        size[data.draw(st.integers(0, len(shape) - 1))] = 3
    beta = data.draw(st.sampled_from([0.75, 0.5, 1.0, 0.6]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    x = normal(len(shape) + axis, *shape, dtype=dtype)
    options = {"alpha": 0.5, "beta": beta, "bias": 1.25}
    name = "local_response_normalization"
    at_end = data.draw(st.booleans())
    got = run(name, x, size=tuple(size), at_end=at_end, **options)
    rtol = 2e-6 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, _expected(x, tuple(size), **options), rtol, 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_tiles(threads: int) -> None:
    """Rows that are cut into chunks."""
    x = normal(3, 2, 96, 27, 27)
    size, options = (1, 5, 1, 1), {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    got = run("local_response_normalization", x, threads=threads, size=size, **options)
    np.testing.assert_allclose(got, _expected(x, size, **options), 1e-6)


def test_infinities_and_nan_stay_in_their_windows() -> None:
    x = np.zeros((1, 40, 3), np.float32)
    x[0, 20, 1] = np.nan
    got = run("local_response_normalization", x, size=(1, 5, 1))
    assert np.isnan(got[0, 18:23, 1]).all()
    assert np.isnan(got).sum() == 5


@pytest.mark.parametrize("size", [(1, 2_000_000_001, 1), (1, 10**6, 1), (3, 999_999, 2)])
def test_windows_far_larger_than_the_tensor(size: tuple[int, ...]) -> None:
    """Windows are clipped to the tensor, and cost no more."""
    x = normal(5, 2, 7, 3)
    options = {"alpha": 1e6, "beta": 0.75, "bias": 1.0}
    got = run("local_response_normalization", x, size=size, **options)
    squares = np.asarray(x, np.float64) ** 2
    met = squares.sum(1, keepdims=True)
    if size[0] > 1:
        met = met.sum(0, keepdims=True)
        met = met + np.pad(met, ((0, 0), (0, 0), (0, 1)))[:, :, 1:]
    expected = x / (1.0 + 1e6 / np.prod(size, dtype=np.float64) * met) ** 0.75
    np.testing.assert_allclose(got, expected, 2e-6)
