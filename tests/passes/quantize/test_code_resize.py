"""Linear interpolation of codes: exact against the formula in float64, rounded once."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.core.window_arithmetic import interpolation
from nnefc.ops.tools.build import build, constant
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.pipeline import run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.quantized_networks import Network

Array = np.ndarray[Any, Any]
Axis = tuple[Array, Array, Array]
ONE = CompileConfig(1, strict_quantization=True)
UNIT = 0.02


def exact(codes: Array, axes: list[Axis], zero: int) -> Array:
    """Means of the last two dimensions, in float64, less the zero point."""
    means = codes.astype(np.float64) - zero
    for axis, (low, high, weight) in zip((2, 3), axes, strict=True):
        w = weight.reshape(-1, *(1,) * (3 - axis))
        means = np.take(means, low, axis) * (1 - w) + np.take(means, high, axis) * w
    return means


def check(graph: Graph, x: Array, want: Array, *, up: bool = False) -> None:
    """Compare codes with means, in units of the result, that are not rounded yet."""
    kernels = [k.family for each in lower_graph(graph.clone(), ONE).launches for k in each.kernels]
    assert kernels.count("window.upsample.code_linear") == 1
    (got,) = compile_graph(graph, ONE).run({"x": x}).values()
    want = np.round(want, 4)  # thirds of codes; halves of means are exact
    codes = np.floor(want + 0.5) if up else np.rint(want)
    assert len(np.unique(got)) > 30
    np.testing.assert_array_equal(got, np.clip(codes, *limits(got.dtype)).astype(got.dtype))


def axis(how: str, extent: int, size: int) -> Axis:
    """ONNX's coordinates in float64."""
    at = np.arange(size)
    match how:
        case "asymmetric":
            x = at * extent / size
        case "align_corners":
            x = at * (extent - 1) / (size - 1)
        case _:
            x = (at + 0.5) * extent / size - 0.5
    low = np.floor(x).astype(int)
    first, second = (np.clip(each, 0, extent - 1) for each in (low, low + 1))
    return first, second, x - low


def limits(dtype: Any) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        ("half_pixel", (18, 14)),
        ("asymmetric", (27, 14)),
        ("align_corners", (17, 13)),
        ("half_pixel", (6, 7)),
        ("pytorch_half_pixel", (12, 35)),
    ],
)
def test_resize(how: str, sizes: tuple[int, int], dtype: str) -> None:
    zero, shape = (120 if dtype == "uint8" else -8), (2, 5, 9, 7)
    net = Network()
    parameters = net.parameters(UNIT, zero, dtype)
    whole = net.constant(np.array([2, 5, *sizes], np.int64))
    reals = net.node("DequantizeLinear", "x", *parameters)
    more: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": how}
    resized = net.node("Resize", reals, "", "", whole, **more)
    codes = net.node("QuantizeLinear", resized, *parameters)
    document = net.model(shape, y=(codes, dtype))
    document.graph.input[0].type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype.upper())
    x = np.random.default_rng(1).integers(*limits(dtype), shape, dtype, endpoint=True)
    axes = [axis(how, extent, size) for extent, size in zip(shape[2:], sizes, strict=True)]
    check(graph_for(document, [x]), x, exact(x, axes, zero) + zero)


@pytest.mark.parametrize("rounding", ["even", "up"])
@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
def test_upsampling(method: str, rounding: str) -> None:
    """Results in another scale, of the other signedness, of more channels than a block."""
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.UINT8, (1, 21, 5, 6)), "x")

    def parameters(scale: float, zero: int, dtype: DType) -> list[Any]:
        return [constant(graph, scale, DType.FLOAT32), constant(graph, zero, dtype)]

    reals = build(graph, "dequantize", [x, *parameters(0.25, 100, DType.UINT8)]).output
    given = {"factor": (3, 2), "method": method, "border": "replicate"}
    means = build(graph, "multilinear_upsample", [reals], given).output
    operands = [means, *parameters(0.5, -10, DType.INT8)]
    y = build(graph, "quantize", operands, {"rounding": rounding}, dtype=DType.INT8).output
    graph.add_output(y, "y")
    codes = np.random.default_rng(2).integers(0, 256, x.type.dims).astype(np.uint8)
    each = [interpolation(n, f, method, "replicate") for n, f in ((5, 3), (6, 2))]
    axes = [(i.low, i.high, i.weight) for i in each]
    check(graph, codes, exact(codes, axes, 100) / 2 - 10, up=rounding == "up")


@pytest.mark.parametrize(
    ("scales", "dtype", "reason"),
    [
        ((0.5, 0.25), DType.INT8, "the result has several scales or zero points, or computed ones"),
        ((0.5, 0.5), DType.INT16, "codes have 16 bits"),
    ],
)
def test_others_tell_why(scales: tuple[float, float], dtype: DType, reason: str) -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.UINT8, (1, 2, 5, 6)), "x")
    parameters = [constant(graph, 0.25, DType.FLOAT32), constant(graph, 9, DType.UINT8)]
    reals = build(graph, "dequantize", [x, *parameters]).output
    given = {"factor": (2, 2), "method": "symmetric", "border": "replicate"}
    means = build(graph, "multilinear_upsample", [reals], given).output
    type_ = TensorType(DType.FLOAT32, (1, 2, 1, 1))
    scale = graph.insert(constant_op(np.reshape(scales, type_.dims), type_, None)).output
    operands = [means, scale, constant(graph, 0, dtype)]
    y = build(graph, "quantize", operands, {"rounding": "even"}, dtype=dtype).output
    graph.add_output(y, "y")
    floats = FloatLayers()
    run_pipeline(graph, hook=floats)
    assert [why for _, why in floats.found] == [reason]


def test_pictures_of_any_size(tmp_path: Path) -> None:
    """Between convolutions, with the bits of known extents; other interpolations stay."""
    net = Network()
    x = net.rounded("x", UNIT, 3, "int8")
    x = net.rounded(net.conv(x, UNIT, (3, 24), pads=[1, 1, 1, 1]), UNIT, -5, "int8")
    scales = net.constant(np.array([1, 1, 2, 2], "f4"))
    x = net.rounded(net.node("Resize", x, "", scales, mode="linear"), UNIT, -5, "int8")
    document = net.model((1, 3, 20, 17), y=(net.conv(x, UNIT, (24, 9), 1), "float32"))
    onnx.save(document, tmp_path / "fixed.onnx")
    for i, name in ((2, "H"), (3, "W")):
        document.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    onnx.save(document, tmp_path / "varying.onnx")
    items = (np.random.default_rng(5).normal(0, 60, (1, 3, 20, 17)).round() * UNIT).astype("f4")
    fixed, varying = (
        nnefc.compile(tmp_path / f"{name}.onnx", strict_quantization=True)(items)
        for name in ("fixed", "varying")
    )
    np.testing.assert_array_equal(fixed, varying)
