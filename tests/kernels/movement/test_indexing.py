"""Gather and scatter against loops over the definitions, and against PyTorch.

Without checks, an index out of range means the nearest item; `tests/models/test_wrong_indices.py`
has the errors.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.6)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
TYPES = st.sampled_from(
    [("float32", "int64"), ("float64", "int32"), ("int64", "int64"), ("bool", "int32")]
)
"""Types of items and indices.  Few pairs, because each needs a kernel of its own."""

REDUCTIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "none": (lambda old, new: new, ""),
    "add": (lambda old, new: old + new, "sum"),
    "mul": (lambda old, new: old * new, "prod"),
    "min": (min, "amin"),
    "max": (max, "amax"),
}
"""The combination of two items and PyTorch's name by reduction."""
UPDATES = st.sampled_from(
    [
        ("none", "float32", "int64"),
        ("none", "bool", "int32"),
        ("add", "float64", "int64"),
        ("mul", "int32", "int64"),
        ("min", "int64", "int32"),
        ("max", "float32", "int32"),
    ]
)
"""Reductions, and types of items and indices."""


def items(seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    whole = np.random.default_rng(seed).integers(-3, 4, shape)
    return (whole > 0 if dtype == "bool" else whole).astype(dtype)


def inside(number: int, extent: int) -> int:
    """The index of the item that `number` means without checks."""
    return min(max(number + extent if number < 0 else number, 0), extent - 1)


def drawn_indices(data: st.DataObject, shape: tuple[int, ...], extent: int, dtype: str) -> Array:
    index = st.one_of(st.integers(-extent, extent - 1), st.sampled_from([2**31 - 1, -(2**31)]))
    count = int(np.prod(shape))
    numbers = data.draw(st.lists(index, min_size=count, max_size=count))
    return np.array(numbers, dtype).reshape(shape)


def drawn_elements(data: st.DataObject, dtype: str, index: str) -> tuple[Array, Array, int]:
    x = items(1, data.draw(SHAPES), dtype)
    axis = data.draw(st.integers(0, x.ndim - 1))
    extents = [data.draw(st.integers(1, extent)) for extent in x.shape]
    extents[axis] = data.draw(st.integers(1, 5))
    return x, drawn_indices(data, tuple(extents), x.shape[axis], index), axis


@SETTINGS
@given(st.data())
def test_gather_elements_matches_its_definition(data: st.DataObject) -> None:
    x, indices, axis = drawn_elements(data, *data.draw(TYPES))
    want = np.empty(indices.shape, x.dtype)
    for place in np.ndindex(*indices.shape):
        source = list(place)
        source[axis] = inside(int(indices[place]), x.shape[axis])
        want[place] = x[tuple(source)]
    options: dict[str, Any] = {"threads": data.draw(st.sampled_from([1, 3])), "axis": axis}
    got = run("gather_elements", x, indices, check_indices=False, **options)
    np.testing.assert_array_equal(got, want)


@SETTINGS
@given(st.data())
def test_scatter_elements_matches_its_definition(data: st.DataObject) -> None:
    reduction, *types = data.draw(UPDATES)
    x, indices, axis = drawn_elements(data, *types)
    updates = items(2, indices.shape, x.dtype.name)
    want = x.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = inside(int(indices[place]), x.shape[axis])
        combine = REDUCTIONS[reduction][0]
        want[tuple(target)] = combine(want[tuple(target)], updates[place])
    threads = data.draw(st.sampled_from([1, 3]))
    options: dict[str, Any] = {"axis": axis, "reduction": reduction, "threads": threads}
    options["check_indices"] = False
    np.testing.assert_array_equal(run("scatter_elements", x, indices, updates, **options), want)


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_match_pytorch(axis: int, reduction: str) -> None:
    x, updates = normal(1, 17, 33, 9), normal(2, 12, 20, 7)
    indices = np.random.default_rng(3).integers(0, x.shape[axis], updates.shape)
    if reduction == "none":  # PyTorch does not define which of several updates wins
        indices = np.indices(updates.shape)[axis]
    given = [torch.from_numpy(a) for a in (x, indices, updates)]
    gathered = torch.gather(given[0], axis, given[1]).numpy()
    np.testing.assert_array_equal(run("gather_elements", x, indices, axis=axis), gathered)
    name = REDUCTIONS[reduction][1]
    if name:
        want = given[0].scatter_reduce(axis, given[1], given[2], name).numpy()
    else:
        want = given[0].scatter(axis, given[1], given[2]).numpy()
    got = run("scatter_elements", x, indices, updates, axis=axis, reduction=reduction, threads=2)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def drawn_slices(data: st.DataObject, shape: tuple[int, ...], batch_dims: int, dtype: str) -> Array:
    depth = data.draw(st.integers(1, len(shape) - batch_dims))
    extents = (*shape[:batch_dims], *data.draw(st.lists(st.integers(1, 4), max_size=2)))
    numbers = [drawn_indices(data, extents, shape[batch_dims + d], dtype) for d in range(depth)]
    return np.stack(numbers, -1)


@SETTINGS
@given(st.data())
def test_gather_nd_matches_its_definition(data: st.DataObject) -> None:
    dtype, index = data.draw(TYPES)
    x = items(1, data.draw(SHAPES), dtype)
    batch_dims = data.draw(st.integers(0, x.ndim - 1))
    indices = drawn_slices(data, x.shape, batch_dims, index)
    depth = indices.shape[-1]
    want = np.empty((*indices.shape[:-1], *x.shape[batch_dims + depth :]), x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        numbers = zip(indices[place].tolist(), x.shape[batch_dims:])
        want[place] = x[(*place[:batch_dims], *itertools.starmap(inside, numbers))]
    threads = data.draw(st.sampled_from([1, 3]))
    options: dict[str, Any] = {"threads": threads, "batch_dims": batch_dims}
    got = run("gather_nd", x, indices, check_indices=False, **options)
    np.testing.assert_array_equal(got, want)


@SETTINGS
@given(st.data())
def test_scatter_nd_matches_its_definition(data: st.DataObject) -> None:
    reduction, dtype, index = data.draw(UPDATES)
    combine = np.vectorize(REDUCTIONS[reduction][0])
    x = items(1, data.draw(SHAPES), dtype)
    indices = drawn_slices(data, x.shape, 0, index)
    updates = items(2, (*indices.shape[:-1], *x.shape[indices.shape[-1] :]), x.dtype.name)
    want = x.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        target = tuple(map(inside, indices[place].tolist(), x.shape))
        want[target] = combine(want[target], updates[place])
    threads = data.draw(st.sampled_from([1, 3]))
    options: dict[str, Any] = {"threads": threads, "reduction": reduction}
    got = run("scatter_nd", x, indices, updates, check_indices=False, **options)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_extremes_propagate_nan(reduction: str) -> None:
    x = np.array([1, np.nan, 2], np.float32)
    updates = np.array([np.nan, 5, 1], np.float32)
    indices = np.array([0, 1, 2])
    got = run("scatter_elements", x, indices, updates, axis=0, reduction=reduction)
    np.testing.assert_array_equal(got, [np.nan, np.nan, 1 if reduction == "min" else 2])


def test_many_threads_scatter_in_order() -> None:
    """Columns and rows that are split into several tiles."""
    x, updates = normal(1, 5, 40_000), normal(2, 4, 40_000)
    indices = np.array([[3], [1], [3], [-5]])
    got = run("scatter_nd", x, indices, updates, reduction="none", threads=3)
    want = x.copy()
    want[[1, 3, 0]] = updates[[1, 2, 3]]
    np.testing.assert_array_equal(got, want)
    along = np.random.default_rng(4).integers(0, 40_000, (5, 30_000))
    added = normal(5, 5, 30_000)
    got = run("scatter_elements", x, along, added, axis=1, reduction="add", threads=3)
    want = x.astype(np.float64)
    np.add.at(want, (np.arange(5)[:, None], along), added)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
