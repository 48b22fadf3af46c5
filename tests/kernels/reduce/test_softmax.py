"""Softmax over any axes, between guard pages, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axes, keepdims=True))
    return powers / powers.sum(axes, keepdims=True)


@examples(0.8)
@given(st.data())
def test_softmax_matches_the_formula(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.one_of(st.integers(1, 4), st.integers(1, 50)), min_size=1,
                               max_size=4).filter(lambda s: np.prod(s) < 50_000))  # fmt: skip
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x = 5 * normal(1, *shape, dtype=dtype)
    got = run("softmax", x, axes=tuple(sorted(axes)), at_end=data.draw(st.booleans()))
    # the difference from the maximum is rounded, and the exponential amplifies the error
    scale = 5e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(got, softmax(x, tuple(axes)), rtol=scale, atol=1e-30)


@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums_are_accurate(axis: int) -> None:
    """Sums of 100,000 exponentials are as accurate as short ones."""
    x = normal(3, 100_000, 3) if axis == 0 else normal(3, 3, 100_000)
    got = run("softmax", x, axes=(axis,), threads=2)
    np.testing.assert_allclose(got, softmax(x, (axis,)), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_nan_and_infinity(axis: int) -> None:
    x = normal(2, 20, 20)
    x[3, 3] = np.nan
    x[5, 5] = -np.inf
    x[7, :] = -np.inf
    x[:, 7] = -np.inf
    x[9, 9] = 1e30
    with np.errstate(invalid="ignore"):
        want = softmax(x, (axis,))
    np.testing.assert_allclose(run("softmax", x, axes=(axis,)), want, rtol=1e-6, atol=1e-38)
