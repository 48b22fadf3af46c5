"""Reductions and softmax against NumPy, between guard pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run

FUNCTIONS: dict[str, Any] = {
    "sum_reduce": np.sum,
    "max_reduce": np.max,
    "min_reduce": np.min,
    "all_reduce": np.all,
    "any_reduce": np.any,
}


def _drawn(data: st.DataObject) -> tuple[tuple[int, ...], tuple[int, ...]]:
    extent = st.one_of(st.integers(1, 4), st.sampled_from([1, 33, 70]))
    shape = tuple(data.draw(st.lists(extent, min_size=1, max_size=4)))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    return shape, axes


@examples(0.8)
@given(st.data())
def test_reductions_match_numpy(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    shape, axes = _drawn(data)
    x = normal(1, *shape)
    if name in ("all_reduce", "any_reduce"):
        x = x > (-2.0 if name == "all_reduce" else 2.0)
    got = run(name, x, axes=axes)
    wide = x if x.dtype == bool else x.astype(np.float64)
    want = FUNCTIONS[name](wide, axis=axes, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@examples(0.6)
@given(st.data())
def test_indices_match_numpy(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["argmax", "argmin"]))
    shape, axes = _drawn(data)
    x = np.round(normal(1, *shape) * 2).astype(np.float32)
    if data.draw(st.booleans()):
        x[normal(2, *shape) > 2] = np.nan
    got = run(f"{name}_reduce", x, axes=axes)
    rest = [d for d in range(x.ndim) if d not in axes]
    flat = x.transpose([*rest, *axes]).reshape(*(shape[d] for d in rest), -1)
    want = np.expand_dims(getattr(np, name)(flat, axis=-1), axes)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64"])
def test_indices_in_long_rows(name: str, dtype: str) -> None:
    """Equal extremes are in several pieces of a row, and at the ends of vectors."""
    random = np.random.default_rng(0)
    x = random.integers(0, 100, (6, 9001)).astype(dtype)
    for row, place in enumerate((0, 31, 4095, 4096, 9000)):
        x[row, place] = {"argmax": 101, "argmin": 0}[name]
    if dtype.startswith("float"):
        x[4, [5000, 8000]] = np.nan
    got = run(f"{name}_reduce", x, axes=(1,))
    np.testing.assert_array_equal(got, getattr(np, name)(x, 1)[:, None])
    backwards = run(f"{name}_reduce_last", x, axes=(1,))
    np.testing.assert_array_equal(backwards, 9000 - getattr(np, name)(x[:, ::-1], 1)[:, None])


@pytest.mark.parametrize("shape", [(3_000_000,), (3_000_000, 3), (1000, 3000)])
def test_long_sums_are_exact(shape: tuple[int, ...]) -> None:
    x = np.abs(normal(1, *shape)) + np.float32(1)
    got = run("sum_reduce", x, axes=(0,), normalize=True, threads=2)
    np.testing.assert_allclose(got, x.mean(0, dtype=np.float64, keepdims=True), rtol=1e-7)


@pytest.mark.parametrize("kind", ["max_reduce", "min_reduce"])
def test_nan_propagates_to_extrema(kind: str) -> None:
    x = normal(1, 3, 100)
    x[1, 50] = np.nan
    for axes in ((0,), (1,)):
        want = np.isnan(x).any(axes, keepdims=True)
        np.testing.assert_array_equal(np.isnan(run(kind, x, axes=axes)), want)


def _softmax(x: Array, axes: tuple[int, ...]) -> Array:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@examples(0.6)
@given(st.data())
def test_softmax_matches_its_formula(data: st.DataObject) -> None:
    shape, axes = _drawn(data)
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    scale = data.draw(st.sampled_from([1.0, 1e4, 1e30]))
    x = (normal(1, *shape) * scale).astype(dtype)
    got = run("softmax", x, axes=axes)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(got, _softmax(x, axes), rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("shape", [(3, 8191), (4, 5000), (16, 8192), (2, 83, 997)])
def test_extremes_of_whole_tensors(kind: str, dtype: Any, shape: tuple[int, ...]) -> None:
    """Parts are reduced at once, if there are equal ones; the extreme is at either end."""
    x = (normal(3, *shape) * 1000).astype(dtype)
    for at in (0, -1):
        x.flat[at] = 9000 if kind == "max" else -9000
        for threads in (1, 2):
            got = run(f"{kind}_reduce", x, axes=tuple(range(x.ndim)), threads=threads)
            np.testing.assert_array_equal(got.reshape(()), getattr(np, kind)(x))
        x.flat[at] = 0
    if dtype is np.float32:
        x.flat[-2] = np.nan
        assert np.isnan(run(f"{kind}_reduce", x, axes=tuple(range(x.ndim)))).all()


def test_threads_share_extremes_of_whole_tensors() -> None:
    graph = Graph("extreme")
    x = graph.add_input(TensorType(DType.FLOAT32, (128, 768)), "x")
    graph.add_output(build(graph, "max_reduce", [x], {"axes": (0, 1)}).output, "y")
    tiles = [launch.tiles for launch in lower(graph).launches]
    assert len(tiles) == 2 and tiles[0] > 1
