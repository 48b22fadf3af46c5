"""Native calls of small models give the results and errors of ordinary calls."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError
from tests.helpers.collection import collect_and_freeze

Array = np.ndarray[Any, Any]


def added(*shapes: tuple[int, ...], dtype: DType = DType.FLOAT32) -> CompiledModel:
    """A model that computes x0 + x1 + ..., or x0 + x0 of one input."""
    graph = Graph("sum")
    values = [graph.add_input(TensorType(dtype, s), f"x{i}") for i, s in enumerate(shapes)]
    total = values[0]
    for value in values[1:] or values:
        total = build(graph, "add", [total, value], {}).output
    graph.add_output(total, "y")
    model = nnefc.compile(graph, threads=1)
    assert isinstance(model, CompiledModel)
    return model


def is_fast(model: CompiledModel, *arrays: Any) -> bool:
    fast = model._fast  # pyright: ignore[reportPrivateUsage]
    return fast is not None and fast.call(*arrays) is not NotImplemented


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 1, 3, 1, 2)])
def test_results_are_new_arrays(shape: tuple[int, ...], dtype: DType) -> None:
    model = added(shape, shape, dtype=dtype)
    x = np.arange(np.prod(shape, dtype=int), dtype=dtype.numpy).reshape(shape)
    assert is_fast(model, x, x)
    first, second = model(x, x), model(x + 1, x)
    assert type(first) is np.ndarray
    assert (first.shape, first.dtype) == (shape, dtype.numpy)
    assert first.flags.owndata
    assert first.flags.writeable
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 2 * x + 1)


class Named(np.ndarray[Any, Any]):
    """Another type of array."""


X = np.arange(12, dtype=np.float32).reshape(3, 4)
SLOW = {
    "strided": np.stack([X, X], -1)[..., 0],
    "transposed": np.asfortranarray(X),
    "subclass": X.view(Named),
}
WRONG = {
    "shape": X.reshape(4, 3),
    "rank": X.reshape(3, 4, 1),
    "type": X.astype(np.float64),
    "byte order": X.astype(">f4"),
    "integers": X.astype(np.int32),
    "list": X.tolist(),
    "nothing": None,
    "number": 3.0,
}


@pytest.mark.parametrize("name", SLOW)
def test_other_arrays_are_accepted_by_the_ordinary_call(name: str) -> None:
    model = added((3, 4))
    assert not is_fast(model, SLOW[name])
    np.testing.assert_array_equal(model(SLOW[name]), 2 * X)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_errors(name: str) -> None:
    model = added((3, 4))
    assert not is_fast(model, WRONG[name])
    with pytest.raises(NnefError):
        model(WRONG[name])


def test_a_wrong_number_of_arguments_is_an_error() -> None:
    model = added((3, 4), (3, 4))
    for arrays in ((), (X,), (X, X, X)):
        assert not is_fast(model, *arrays)
        with pytest.raises(NnefError, match="expected 2"):
            model(*arrays)


def test_unpickled_arrays_take_the_fast_call() -> None:
    copy = pickle.loads(pickle.dumps(X))
    assert is_fast(added((3, 4)), copy)


@pytest.mark.slow
def test_reference_counts_stay_balanced() -> None:
    model = added((3, 4))
    model(X)
    counted = (X, X.dtype, NotImplemented, np.ndarray)
    collect_and_freeze()
    before = [sys.getrefcount(x) for x in counted]
    kept = [model(X) for _ in range(1000)]
    del kept
    for _ in range(1000):
        with pytest.raises(NnefError):
            model(X.reshape(4, 3))
    gc.collect()
    after = [sys.getrefcount(x) for x in counted]
    # one reference too many or too few per call would add up to a thousand
    assert all(abs(b - a) < 500 for a, b in zip(before, after, strict=True))


@pytest.mark.slow
def test_deleting_the_fast_call_frees_only_its_own_objects() -> None:
    fast = added((3, 4))._fast  # pyright: ignore[reportPrivateUsage]
    assert fast is not None
    collect_and_freeze()
    del fast
    gc.collect()
    np.testing.assert_array_equal(added((3, 4))(X), 2 * X)


def test_many_threads() -> None:
    model = added((3, 4), (3, 4))
    wrong: list[int] = []

    def work(number: int) -> None:
        x = np.full((3, 4), number, np.float32)
        for _ in range(2000):
            if not (model(x, x) == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_large_models_take_the_ordinary_call() -> None:
    model, x = added((2000, 2000)), np.zeros((2000, 2000), np.float32)
    for _ in range(3):
        model(x)
    assert model._fast is None  # pyright: ignore[reportPrivateUsage]


# -- several results, and larger models, whose runs release the lock of the interpreter


def products(threads: int = 1, depth: int = 512) -> CompiledModel:
    """A model of one row x and a matrix w, with the results x w and -x."""
    graph = Graph("products")
    x = graph.add_input(TensorType(DType.FLOAT32, (1, depth)), "x")
    w = graph.add_input(TensorType(DType.FLOAT32, (depth, 512)), "w")
    attributes = {"transposeA": False, "transposeB": False}
    graph.add_output(build(graph, "matmul", [x, w], attributes).output, "y")
    graph.add_output(build(graph, "neg", [x], {}).output, "z")
    model = nnefc.compile(graph, threads=threads)
    assert isinstance(model, CompiledModel)
    return model


def _weights(depth: int, width: int) -> Array:
    """Small integers, so that all sums are exact."""
    return np.random.default_rng(0).integers(-4, 5, (depth, width)).astype(np.float32)


def _row(seed: int, depth: int = 512) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, (1, depth)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("depth", [64, 512])
def test_several_results(depth: int, threads: int) -> None:
    model, x, w = products(threads, depth), _row(1, depth), _weights(depth, 512)
    for _ in range(2):  # the first call starts the workers of a team, the second prepares
        model(x, w)
    assert is_fast(model, x, w)
    kept: list[Any] = [model(_row(seed, depth), w) for seed in range(5)]
    results: tuple[Array, ...]
    for seed, results in enumerate(kept):
        assert type(results) is tuple
        assert [type(y) for y in results] == [np.ndarray] * 2
        assert all(y.flags.owndata and y.flags.writeable for y in results)
        np.testing.assert_array_equal(results[0], _row(seed, depth) @ w)
        np.testing.assert_array_equal(results[1], -_row(seed, depth))


@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_calls_of_a_larger_model(threads: int) -> None:
    model, wrong = products(threads), list[int]()
    w = _weights(512, 512)

    def work(seed: int) -> None:
        x = _row(seed)
        expected = x @ w
        for _ in range(500):
            y, z = model(x, w)
            if not ((y == expected).all() and (z == -x).all()):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert wrong == []


def test_a_team_that_is_busy_declines() -> None:
    model, x, w = products(2), _row(1), _weights(512, 512)
    for _ in range(2):
        model(x, w)
    team = model._runner.team  # pyright: ignore[reportPrivateUsage]
    with team._lock:  # pyright: ignore[reportPrivateUsage]
        assert not is_fast(model, x, w)
        np.testing.assert_array_equal(model(x, w)[1], -x)
    assert is_fast(model, x, w)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_team_in_the_child_of_a_fork() -> None:
    model, x, w = products(2), _row(1), _weights(512, 512)
    model(x, w)
    expected = model(x, w)[0]
    child = os.fork()
    if child == 0:
        equal = [bool((model(x, w)[0] == expected).all()) for _ in range(3)]
        os._exit(0 if all(equal) and is_fast(model, x, w) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_fast(model, x, w)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_several_results_keep_reference_counts(threads: int) -> None:
    model, x, w = products(threads), _row(1), _weights(512, 512)
    model(x, w)
    counted = (x, x.dtype, NotImplemented, np.ndarray, tuple)
    collect_and_freeze()
    before = [sys.getrefcount(each) for each in counted]
    kept: list[Any] = [model(x, w) for _ in range(1000)]
    assert [sys.getrefcount(y) for y in kept[-1]] == [3, 3]
    del kept
    for _ in range(1000):
        with pytest.raises(NnefError):
            model(x[0], w)
    gc.collect()
    after = [sys.getrefcount(each) for each in counted]
    assert all(abs(b - a) < 500 for a, b in zip(before, after, strict=True))
