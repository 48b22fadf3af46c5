"""Quantized convolutions in integers, against the QDQ formula in float64 and onnxruntime."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (onnxruntime is untyped)

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.quantized_networks import Network

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

ONE = CompileConfig(1)
UNIT = 0.02
WIDE = 1.3729 * UNIT


def families(graph: Any) -> list[str]:
    """The families of the kernels of a graph that convolve."""
    kernels = [k for each in lower_graph(graph, ONE).launches for k in each.kernels]
    return [k.family for k in kernels if k.family.startswith("convolution.")]


def compare(model: Any, shape: Shape, units: dict[str, float], *, integers: bool = True) -> None:
    """Compare compiled results with exact ones, and with those of onnxruntime.

    `units`: the distance of neighbouring results, by name.
    """
    random = np.random.default_rng(3)
    x = (random.normal(0, 60, shape).round() * UNIT).astype(np.float32)
    graph = graph_for(model, [x])
    kinds = families(graph)
    assert kinds
    assert all(("codes" in kind) == integers for kind in kinds), kinds
    got = compile_graph(graph, ONE).run({"x": x})
    exact = reference_results(graph, [x])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    plain = dict(zip(units, map(np.asarray, session.run(list(units), {"x": x})), strict=True))
    for (name, unit), want in zip(units.items(), exact, strict=True):
        assert len(np.unique(want)) > 50
        for other in (want, plain[name]):
            assert got[name].dtype == plain[name].dtype
            difference = np.abs(got[name].astype(np.float64) - other.astype(np.float64)) / unit
            assert difference.max() < 1.01, name
            assert np.mean(difference > 0.01) <= 0.001, name


@pytest.mark.parametrize("bias", ["int32", "reals"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_codes_between_convolutions(dtype: str, bias: str) -> None:
    """First layers, strides, groups, a clamp, and one result as reals."""
    net = Network()
    zero = 128 if dtype == "uint8" else 0
    x = net.rounded("x", UNIT, zero, dtype)
    x = net.conv(x, UNIT, (3, 32), bias=bias, pads=[1, 1, 1, 1], strides=[2, 2])
    x = net.rounded(net.node("Relu", x), UNIT, zero - 100, dtype)
    x = net.conv(x, UNIT, (32, 32), bias=bias, group=32, pads=[1, 1, 1, 1])
    x = net.rounded(x, UNIT, zero, dtype)
    x = net.conv(x, UNIT, (32, 64), bias=bias, group=2, pads=[0, 1, 1, 0])
    x = net.node("Clip", x, net.constant(np.array(-1, "f4")), net.constant(np.array(1.5, "f4")))
    x = net.rounded(x, UNIT, zero, dtype)
    y = net.conv(x, UNIT, (64, 21), 1, bias=bias)
    codes = net.node("QuantizeLinear", y, *net.parameters(UNIT, zero, dtype))
    z = net.node("Relu", net.conv(x, UNIT, (64, 19), 1, bias=bias))
    model = net.model((2, 3, 11, 10), y=(codes, dtype), z=(z, "float32"))
    compare(model, (2, 3, 11, 10), {"y": 1, "z": UNIT})


def test_results_that_others_read() -> None:
    """Results as reals and as codes, codes that are moved, of the other signedness."""
    net = Network()
    codes = net.node("QuantizeLinear", "x", *net.parameters(UNIT, 3, "int8"))
    x = net.node("DequantizeLinear", codes, *net.parameters(UNIT, 3, "int8"))
    real = net.conv(x, UNIT, (20, 24))
    inner = net.node("QuantizeLinear", real, *net.parameters(UNIT, -5, "int8"))
    x = net.node("DequantizeLinear", inner, *net.parameters(UNIT, -5, "int8"))
    moved = net.node("Transpose", net.node("Sin", x), perm=[0, 1, 3, 2])
    y = net.conv(net.node("Transpose", x, perm=[0, 1, 3, 2]), UNIT, (24, 16), 1)
    last = net.node("QuantizeLinear", y, *net.parameters(UNIT, 0, "int8"))
    tensors = {"a": (codes, "int8"), "b": (inner, "int8"), "c": (last, "int8")}
    model = net.model(
        (1, 20, 7, 8), **tensors, d=(moved, "float32"), e=(net.node("Cos", real), "float32")
    )
    compare(model, (1, 20, 7, 8), {"a": 1, "b": 1, "c": 1, "d": UNIT, "e": 0.01})


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_residual_networks(dtype: str) -> None:
    """Sums of two roundings, of one, and with the input of the convolution itself."""
    net = Network()
    zero = 128 if dtype == "uint8" else 0
    x = net.rounded("x", UNIT, zero, dtype)
    left = net.rounded(net.conv(x, UNIT, (20, 24), pads=[1, 1, 1, 1]), UNIT, zero + 9, dtype)
    right = net.rounded(net.conv(x, UNIT, (20, 24), 1), 0.6853 * UNIT, zero - 7, dtype)
    y = net.node("Relu", net.node("Add", left, right))
    y = net.rounded(y, UNIT, zero - 100, dtype)
    z = net.node("Add", y, net.conv(y, UNIT, (24, 24), 1, bias="reals"))
    z = net.rounded(z, WIDE, zero, dtype)
    u = net.node("Add", net.rounded(net.conv(z, UNIT, (24, 24), 1), UNIT, zero, dtype), z)
    u = net.rounded(u, UNIT, zero, dtype)
    last = net.node("QuantizeLinear", u, *net.parameters(UNIT, zero, dtype))
    shape = (2, 20, 9, 7)
    model = net.model(shape, a=(y, "float32"), b=(z, "float32"), c=(last, dtype))
    compare(model, shape, {"a": UNIT, "b": WIDE, "c": 1})
    graph = graph_for(model, [np.zeros(shape, np.float32)])
    kernels = [k.family for each in lower_graph(graph, ONE).launches for k in each.kernels]
    assert sum(family.startswith("elementwise") for family in kernels) == 3, "x, a and b"


def test_one_dimension() -> None:
    net = Network()
    x = net.rounded("x", UNIT, 90, "uint8")
    w = net.random.integers(0, 128, (18, 17, 5)).astype("u1")
    zero, scale = net.constant(np.array(60, "u1")), net.constant(np.array(0.002, "f4"))
    filter_ = net.node("DequantizeLinear", net.constant(w), scale, zero)
    y = net.node("Conv", x, filter_, pads=[2, 2], dilations=[1])
    y = net.node("QuantizeLinear", y, *net.parameters(UNIT, 130, "uint8"))
    compare(net.model((1, 17, 30), y=(y, "uint8")), (1, 17, 30), {"y": 1})


def test_groups_and_wide_filters() -> None:
    """Groups that are slices of blocks, of 12 and 3 channels, and filters that exceed int8."""
    net = Network()
    x = net.rounded("x", UNIT, 128, "uint8")
    y = net.rounded(net.conv(x, UNIT, (24, 24), group=24, pads=[1, 1, 1, 1]), UNIT, 120, "uint8")
    x = net.rounded(net.node("Add", x, y), UNIT, 125, "uint8")
    x = net.rounded(net.conv(x, UNIT, (24, 24), group=6, pads=[1, 0, 1, 0]), UNIT, 120, "uint8")
    x = net.rounded(net.conv(x, UNIT, (24, 36), group=2), UNIT, 130, "uint8")
    w = net.random.integers(0, 256, (36, 3, 3, 3)).astype("u1")
    w[:, :, 1] = 100
    scale, zero = net.constant(np.array(0.003, "f4")), net.constant(np.array(100, "u1"))
    filter_ = net.node("DequantizeLinear", net.constant(w), scale, zero)
    y = net.node("Conv", x, filter_, group=12)
    y = net.node("QuantizeLinear", y, *net.parameters(UNIT, 130, "uint8"))
    compare(net.model((1, 24, 11, 12), y=(y, "uint8")), (1, 24, 11, 12), {"y": 1})


def test_transposed() -> None:
    """Whole channels with a scale each, then groups with the same scales."""
    net = Network()
    x = net.rounded("x", UNIT, 100, "uint8")
    for shape, group, attributes in (
        ((19, 16, 3, 3), 1, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
        ((16, 1, 4, 4), 16, {"strides": [2, 1], "pads": [1, 2, 1, 1]}),
    ):
        w = net.random.integers(-128, 128, shape).astype("i1")
        scales = net.random.uniform(0.5, 1.5, shape[1]) / (200 if group == 1 else 100)
        zeros = net.constant(np.zeros(shape[1], "i1"))
        filter_ = net.node(
            "DequantizeLinear",
            *(net.constant(w), net.constant(scales.astype("f4")), zeros),
            axis=1,
        )
        x = net.node("ConvTranspose", x, filter_, group=group, **attributes)
        x = net.rounded(x, UNIT, 110, "uint8")
    compare(net.model((1, 19, 6, 7), y=(x, "float32")), (1, 19, 6, 7), {"y": UNIT})


def computed(net: Network, x: str) -> str:
    """A convolution with a corner of its input."""
    ends = (net.constant(np.array(n, np.int64)) for n in ([0, 0], [3, 3], [2, 3]))
    corner = net.rounded(net.node("Slice", x, *ends), UNIT, 128, "uint8")
    return net.node("Div", net.node("Conv", x, corner), net.constant(np.array(20, "f4")))


def test_others_stay_as_they_are() -> None:
    net = Network()
    y = computed(net, net.rounded("x", UNIT, 128, "uint8"))
    y = net.node("QuantizeLinear", y, *net.parameters(UNIT, 128, "uint8"))
    shape = (1, 32, 13, 13)
    compare(net.model(shape, y=(y, "uint8")), shape, {"y": 1}, integers=False)
