"""The largest and smallest items against PyTorch's stable sort."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.8)


def expected(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The result by a stable sort, in which NaN is the largest item."""
    ordered, index = torch.sort(torch.from_numpy(x), dim=axis, descending=largest, stable=True)
    take = np.arange(k)
    return np.take(ordered.numpy(), take, axis), np.take(index.numpy(), take, axis)


@SETTINGS
@given(st.data())
def test_topk_is_a_stable_sort(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2)))
    axis = data.draw(st.integers(0, len(shape)))
    shape = (*shape[:axis], data.draw(st.integers(1, 40)), *shape[axis:])
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64"]))
    span = data.draw(st.sampled_from([2, 6, 1000]))
    x = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-span, span, shape)
    x = x.astype(dtype)
    if dtype.startswith("float") and data.draw(st.booleans()):
        x[x == 1] = np.nan
        x[x == -1] = -np.inf
    k = data.draw(st.integers(1, shape[axis]))
    largest = data.draw(st.booleans())
    threads = data.draw(st.sampled_from([1, 3]))
    got = run("topk", x, k=k, axis=axis, largest=largest, threads=threads)
    for ours, theirs in zip(got, expected(x, k, axis, largest), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("k", [1, 5, 20_000])
def test_long_rows_match_a_stable_sort(k: int) -> None:
    x = normal(1, 3, 20_000)
    got = run("topk", x, k=k, axis=1, largest=True, threads=2)
    for ours, theirs in zip(got, expected(x, k, 1, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@SETTINGS
@given(st.data())
def test_last_indices_of_equal_extremes_match_their_definition(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-2, 3, shape)
    x = x.astype(np.float32)
    if data.draw(st.booleans()):
        x[x == 0] = np.nan
    for name, largest in (("argmax_reduce_last", True), ("argmin_reduce_last", False)):
        better = x if largest else -x
        better = np.where(np.isnan(x), np.inf, better)
        want = (better == better.max(axis, keepdims=True)) * np.expand_dims(
            np.arange(1, x.shape[axis] + 1), tuple(range(1, x.ndim - axis))
        )
        got = run(name, x, axes=(axis,))
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, want.max(axis, keepdims=True) - 1)


@SETTINGS
@given(st.data())
def test_products_match_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1))))
    x = normal(data.draw(st.integers(0, 9)), *shape)
    want = x.astype(np.float64).prod(axes, keepdims=True)
    got = run("product_reduce", x, axes=axes)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-37)
