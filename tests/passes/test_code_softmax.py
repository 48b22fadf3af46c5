"""Softmax over codes: compared with the formula in float64, and with the definition exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.ops.internal.code_softmax import NAME
from nnefc.options.compile_config import CompileConfig
from tests.helpers.kernels.one_op import run_graph
from tests.helpers.onnx.codes import kernels_of, model_of_codes
from tests.helpers.onnx.evaluate import graph_for

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rows(dtype: str, *shape: int) -> Array:
    """Codes of narrow and wide distributions, with extremes."""
    random = np.random.default_rng(shape)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    spread = random.choice([1, 20, 90], (*shape[:-1], 1))
    items = random.normal(0, spread, shape) + random.integers(low, high, (*shape[:-1], 1))
    return np.clip(np.rint(items), low, high).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("width", [1, 7, 64, 128, 197, 300])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_codes(dtype: str, width: int, threads: int) -> None:
    x, zero = rows(dtype, 3, 50, width), np.iinfo(dtype).min
    scale, unit = np.float32(0.043), np.float32(1 / 256 if width < 7 else 0.0031)
    types = DType(dtype)
    graph = Graph("softmax")
    value = graph.add_input(TensorType(types, x.shape), "x")
    attributes = {
        "axes": (2,),
        "scale": float(scale),
        "result_scale": float(unit),
        "result_zero": int(zero),
    }
    made = Op(NAME, [value], attributes, [TensorType(types, x.shape)])
    graph.add_output(graph.insert(made).output, "y")
    (got,) = run_graph(graph, x, threads=threads)
    codes = x.astype(np.int64)
    terms = np.rint(np.exp(-float(scale) * (codes.max(-1, keepdims=True) - codes)) * 2**23)
    factor = (1 / (terms.sum(-1, keepdims=True) * float(unit))).astype(np.float32)
    want = np.rint(terms.astype(np.float32) * factor) + zero
    np.testing.assert_array_equal(got, np.minimum(want, np.iinfo(dtype).max))
    exact = np.rint(softmax(codes * float(scale)) / float(unit)) + zero
    difference = np.abs(got - np.minimum(exact, np.iinfo(dtype).max))
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_softmax_between_conversions(dtype: str) -> None:
    """Behind a reshape and before a transpose, with a user of the codes that is a product."""
    make = helper.make_node
    x = rows(dtype, 2, 60, 40)
    nodes = [
        make("Reshape", ["r", "heads"], ["h"]),
        make("Softmax", ["h"], ["p"], axis=-1),
        make("Transpose", ["p"], ["t"], perm=[0, 2, 1, 3]),
    ]
    constants = {"heads": np.array([2, 6, 10, 40])}
    graph = graph_for(model_of_codes(nodes, ["t"], x, 3, constants), [x])
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    assert len([k for k in kernels if k.startswith("reduce.code_softmax")]) == 1
    assert not [k for k in kernels if "float" in k and not k.startswith("movement")]
    got = compile_graph(graph, CompileConfig(1))(x)
    reals = (x.astype(np.float64) - 3) * float(np.float32(0.037))
    want = softmax(reals.reshape(2, 6, 10, 40)).transpose(0, 2, 1, 3) / float(np.float32(0.037))
    limits = np.iinfo(dtype)
    difference = np.abs(got - np.clip(np.rint(want) + 3, limits.min, limits.max))
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001
    assert len(np.unique(got)) > 20


@pytest.mark.parametrize(
    "axis, users", [(1, ["p"]), (-1, ["p", "real"])], ids=["rows across", "reals are read"]
)
def test_other_softmaxes_compute_on_reals(axis: int, users: list[str]) -> None:
    make = helper.make_node
    x = rows("uint8", 2, 30, 40)
    nodes = [make("Softmax", ["r"], ["p"], axis=axis)]
    nodes += [make("ReduceSum", ["p", "axes"], ["real"])] if len(users) > 1 else []
    constants = {"axes": np.array([1])}
    graph = graph_for(model_of_codes(nodes, users, x, 3, constants), [x])
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    assert not [k for k in kernels if k.startswith("reduce.code_softmax")]
