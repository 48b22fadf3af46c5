"""Softmax over codes: compared with the formula in float64, and with the definition exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.frontends.nnef import import_text
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
@pytest.mark.parametrize("rounding", ["even", "up"])
def test_rows_of_codes(dtype: str, width: int, threads: int, rounding: str) -> None:
    x, zero = rows(dtype, 3, 50, width), np.iinfo(dtype).min
    scale, unit = np.float32(0.043), np.float32(1 / 256 if width < 7 else 0.0031)
    got = result(x, float(scale), float(unit), int(zero), rounding, threads)
    codes = x.astype(np.int64)
    terms = np.rint(np.exp(-float(scale) * (codes.max(-1, keepdims=True) - codes)) * 2**23)
    factor = (1 / (terms.sum(-1, keepdims=True) * float(unit))).astype(np.float32)
    units = (terms.astype(np.float32) * factor).astype(np.float64)
    want = (np.rint(units) if rounding == "even" else np.floor(units + 0.5)) + zero
    np.testing.assert_array_equal(got, np.minimum(want, np.iinfo(dtype).max))
    exact = np.rint(softmax(codes * float(scale)) / float(unit)) + zero
    difference = np.abs(got - np.minimum(exact, np.iinfo(dtype).max))
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("rounding", ["even", "up"])
def test_rows_of_halves(dtype: str, rounding: str) -> None:
    """Rows of k equal codes above much smaller ones: the results are 255 / k, a half for many k."""
    counts, width = [1, 2, 6, 10, 30, 34, 102, 170, 255], 300
    x = np.full((len(counts), width), np.iinfo(dtype).min, dtype)
    for row, count in enumerate(counts):
        x[row, :count] = 90
    zero = np.iinfo(dtype).min + 3
    got = result(x[None], 1.0, 1 / 255, int(zero), rounding, 1)[0]
    for row, count in enumerate(counts):
        half, odd = divmod(510 // count, 2)
        code = half + (odd if rounding == "up" else half % 2 if odd else 0)
        assert got[row, 0] == min(zero + code, np.iinfo(dtype).max)
        assert got[row, -1] == zero


def result(x: Array, scale: float, unit: float, zero: int, rounding: str, threads: int) -> Array:
    """What the kernel computes."""
    types = DType(str(x.dtype))
    graph = Graph("softmax")
    value = graph.add_input(TensorType(types, x.shape), "x")
    attributes = {
        "axes": (2,),
        "scale": scale,
        "result_scale": unit,
        "result_zero": zero,
        "rounding": rounding,
    }
    made = Op(NAME, [value], attributes, [TensorType(types, x.shape)])
    graph.add_output(graph.insert(made).output, "y")
    (got,) = run_graph(graph, x, threads=threads)
    return got


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


@pytest.mark.parametrize(("kind", "number", "factor"), [("Mul", 0.3, 0.3), ("Div", 4.0, 0.25)])
def test_factors_are_parts_of_scales(kind: str, number: float, factor: float) -> None:
    make = helper.make_node
    x = rows("uint8", 2, 60, 40)
    nodes = [make(kind, ["r", "number"], ["f"]), make("Softmax", ["f"], ["p"], axis=-1)]
    graph = graph_for(model_of_codes(nodes, ["p"], x, 3, {"number": np.array(number, "f4")}), [x])
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    assert [k for k in kernels if k.startswith("reduce.code_softmax")]
    assert not [k for k in kernels if "float" in k and not k.startswith("movement")]
    got = compile_graph(graph, CompileConfig(1))(x)
    reals = (x.astype(np.float64) - 3) * float(np.float32(0.037)) * factor
    difference = np.abs(
        got - np.clip(np.rint(softmax(reals) / float(np.float32(0.037))) + 3, 0, 255)
    )
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001
    assert len(np.unique(got)) > 3


def test_softmax_between_ranges() -> None:
    """In an NNEF document, whose codes round halves up."""
    document = """version 1.0; graph net(x) -> (y) {
        x = external(shape = [3,20,512]);
        a = linear_quantize(x, -8.0, 7.9375, bits = 8);
        p = softmax(a, axes = [2]);
        y = linear_quantize(p, 0.0, 0.99609375, bits = 8);
    }"""
    graph = import_text(document)
    x = (rows("int8", 3, 20, 512) / 16 + np.float32(0.01)).astype(np.float32)
    x[0, 0] = 1.0  # 512 equal items: each is half a step
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    assert [k for k in kernels if k.startswith("reduce.code_softmax")]
    got = compile_graph(graph, CompileConfig(1))(x)
    codes = np.clip(np.floor((x.astype(np.float64) + 8) * 16 + 0.5), 0, 255)
    want = np.minimum(np.floor(softmax(codes / 16) * 256 + 0.5), 255)
    difference = np.abs(got * 256 - want)
    assert (got[0, 0] == 1 / 256).all()
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
