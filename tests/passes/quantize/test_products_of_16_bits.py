"""Products of activations of 16 bits between QuantizeLinear and DequantizeLinear, in integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build, constant
from nnefc.passes.analysis.integer_support import convolution_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.analysis.parts_of_sums import cut
from nnefc.passes.quantize.convolutions_of_pairs import ConvolutionsOfPairs

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(21)
ROWS, COLUMNS = 100, 40


@pytest.fixture(autouse=True)
def _same_numbers() -> None:  # pyright: ignore[reportUnusedFunction]
    """Numbers do not depend on the tests before: few of them are so close to ties."""
    RNG.bit_generator.state = np.random.default_rng(21).bit_generator.state


class Layer:
    """x quantized to 16 bits, times weights of int8 with a scale per column, quantized again."""

    def __init__(self, dtype: str, depth: int) -> None:
        self.dtype = np.dtype(dtype)
        self.zero = 0 if dtype == "int16" else 31000
        self.x_scale, self.y_scale = np.float32(1.2e-4), np.float32(3e-4 * depth**0.5)
        weights = RNG.normal(size=(depth, COLUMNS))
        self.scales = (np.abs(weights).max(0) / 127).astype(np.float32)
        self.weights = np.rint(weights / self.scales).astype(np.int8)
        self.bias = RNG.normal(size=COLUMNS).astype(np.float32)

    def model(self) -> onnx.ModelProto:
        point = np.array(self.zero, self.dtype)
        known = {
            "sx": self.x_scale,
            "zero": point,
            "sw": self.scales,
            "none": np.zeros(COLUMNS, np.int8),
            "w": self.weights,
            "b": self.bias,
            "sy": self.y_scale,
        }
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "sx", "zero"], ["codes"]),
            helper.make_node("DequantizeLinear", ["codes", "sx", "zero"], ["a"]),
            helper.make_node("DequantizeLinear", ["w", "sw", "none"], ["v"], axis=1),
            helper.make_node("MatMul", ["a", "v"], ["sums"]),
            helper.make_node("Add", ["sums", "b"], ["c"]),
            helper.make_node("QuantizeLinear", ["c", "sy", "zero"], ["y"]),
        ]
        item = helper.np_dtype_to_tensor_dtype(self.dtype)
        real = onnx.TensorProto.FLOAT
        shape = ROWS, len(self.weights)
        graph = helper.make_graph(
            nodes,
            "layer",
            [helper.make_tensor_value_info("x", real, shape)],
            [helper.make_tensor_value_info("y", item, (ROWS, COLUMNS))],
            [numpy_helper.from_array(np.asarray(each), name) for name, each in known.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def results(self, x: Array) -> Array:
        """The formula in integers and float64."""
        info = np.iinfo(self.dtype)
        codes = np.clip(np.rint(x / self.x_scale) + self.zero, info.min, info.max)
        sums = (codes.astype(np.int64) - self.zero) @ self.weights.astype(np.int64)
        reals = sums * (float(self.x_scale) * self.scales.astype(float)) + self.bias
        return np.clip(np.rint(reals / float(self.y_scale)) + self.zero, info.min, info.max)


def by_onnxruntime(layer: Layer, path: Path, x: Array) -> Array:
    """Without optimisations, which would round activations to 8 bits."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(str(path), options).run(None, {"x": x})[0]


def by_formula(layer: Layer, path: Path, x: Array) -> Array:
    del path
    return layer.results(x)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [71, 3001], ids=["one sum", "parts"])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("oracle", [by_formula, by_onnxruntime])
def test_codes_are_those_of_others(
    oracle: Callable[[Layer, Path, Array], Array], dtype: str, depth: int, tmp_path: Path
) -> None:
    layer, path = Layer(dtype, depth), tmp_path / "layer.onnx"
    path.write_bytes(layer.model().SerializeToString())
    model: Any = nnefc.compile(path, keep=False, strict_quantization=True)
    x = RNG.normal(size=(ROWS, depth)).astype(np.float32)
    want = oracle(layer, path, x).astype(int)
    assert len(np.unique(want)) > 200
    differences = np.abs(np.asarray(model(x)).astype(int) - want)
    assert differences.max() <= 1
    assert differences.mean() <= (0.001 if oracle is by_formula else 0.002)


Kind = tuple[str, int, int, dict[str, Any]]
"""Operator, channels, groups, attributes."""
CONVOLUTIONS: dict[str, Kind] = {
    "one sum": ("Conv", 5, 1, {"pads": [1, 1, 1, 1]}),
    "parts": ("Conv", 400, 1, {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "depthwise": ("Conv", 20, 20, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "groups": ("Conv", 40, 2, {"pads": [0, 1, 1, 0], "dilations": [2, 1]}),
    "transposed": ("ConvTranspose", 6, 1, {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
    "transposed, depthwise": ("ConvTranspose", 40, 40, {"strides": [2, 1], "pads": [1] * 4}),
}


def _convolution(layer: Layer, kind: Kind, weights: Array, path: Path) -> Any:
    """The compiled convolution and a clamp between conversions."""
    name, channels, groups, attributes = kind
    model, is_transposed = layer.model(), name == "ConvTranspose"
    nodes, known = model.graph.node, model.graph.initializer
    for each in known:
        if each.name == "w":
            each.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights), "w"))
    nodes[2].attribute[0].i = int(is_transposed and groups == 1)
    given: dict[str, Any] = {"group": groups, **attributes}
    nodes[3].CopyFrom(helper.make_node(name, ["a", "v", "b"], ["sums"], **given))
    nodes[4].CopyFrom(helper.make_node("Relu", ["sums"], ["c"]))
    for value, dims in ((model.graph.input[0], (1, channels, 9, 8)), (model.graph.output[0], None)):
        item = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, item, dims))
    path.write_bytes(model.SerializeToString())
    return nnefc.compile(path, keep=False, strict_quantization=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_convolutions_are_sums_of_integers(dtype: str, name: str, tmp_path: Path) -> None:
    """Compared with PyTorch in float64, which is exact."""
    functional = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    operator, channels, groups, attributes = kind = CONVOLUTIONS[name]
    layer = Layer(dtype, 9 * channels // groups)
    is_transposed = operator == "ConvTranspose"
    weights = layer.weights.T.reshape(COLUMNS, channels // groups, 3, 3)
    if is_transposed and groups == 1:
        weights = weights.swapaxes(0, 1)
    compiled = _convolution(layer, kind, weights, tmp_path / "layer.onnx")
    x = RNG.normal(size=(1, channels, 9, 8)).astype(np.float32)
    info = np.iinfo(layer.dtype)
    codes = np.clip(np.rint(x / layer.x_scale) + layer.zero, info.min, info.max) - layer.zero
    (top, left, bottom, right) = attributes["pads"]
    factors = [torch.from_numpy(each.astype(float)) for each in (codes, weights)]
    if is_transposed:
        stride = attributes["strides"]
        sums = functional.conv_transpose2d(*factors, stride=stride, groups=groups).numpy()
        sums = sums[..., top : sums.shape[2] - bottom, left : sums.shape[3] - right]
    else:
        factors[0] = functional.pad(factors[0], (left, right, top, bottom))
        moves = {"stride": attributes.get("strides", 1), "dilation": attributes.get("dilations", 1)}
        sums = functional.conv2d(*factors, groups=groups, **moves).numpy()
    channel = (-1, 1, 1)
    scale = float(layer.x_scale) * layer.scales.astype(float).reshape(channel)
    reals = np.maximum(sums * scale + layer.bias.reshape(channel), 0)
    want = np.clip(np.rint(reals / float(layer.y_scale)) + layer.zero, info.min, info.max)
    assert len(np.unique(want)) > 200
    differences = np.abs(np.asarray(compiled(x)).astype(int) - want.astype(int))
    assert differences.max() <= 1
    assert differences.mean() <= 0.001


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0)])
def test_convolutions_without_channels_stay(inputs: int, outputs: int) -> None:
    graph, window = Graph("g"), {"border": "constant", "groups": 1, "padding": ((0, 0),)}
    x = graph.add_input(TensorType(DType.INT16, (1, inputs, 5)), "x")
    type_ = TensorType(DType.INT8, (outputs, inputs, 2))
    w = graph.insert(constant_op(np.zeros(type_.dims, np.int8), type_, None)).output
    zeros = [constant(graph, 0, dtype) for dtype in (DType.INT16, DType.INT8)]
    op = build(graph, "integer_conv", [x, w, *zeros], window)
    graph.add_output(op.output, "y")
    assert not ConvolutionsOfPairs().run(graph)
    assert convolution_reason(op, KnownValues(graph)) == "there are no products"


def test_sums_beyond_int32_are_exact() -> None:
    """Each of the three products takes half of int32."""
    graph, scale = Graph("g"), 2.0**-15
    x = graph.add_input(TensorType(DType.INT16, (1, 3, 3, 5)), "x")
    type_ = TensorType(DType.INT16, (8, 3, 1, 1))
    w = graph.insert(constant_op(np.full(type_.dims, 32000, np.int16), type_, None)).output
    parameters = [constant(graph, scale, DType.FLOAT32), constant(graph, 0, DType.INT16)]
    reals = [build(graph, "dequantize", [each, *parameters]).output for each in (x, w)]
    window = {"border": "constant", "groups": 1, "padding": ((0, 0),) * 2}
    op = build(graph, "conv", [*reals, constant(graph, 0.0, DType.FLOAT32)], window)
    graph.add_output(op.output, "y")
    assert ConvolutionsOfPairs().run(graph.clone())
    codes = np.full((1, 3, 3, 5), 32000, np.int16)
    y = np.asarray(nnefc.compile(graph, keep=False)(codes))
    np.testing.assert_allclose(y, 3 * (32000 / 2**15) ** 2, rtol=1e-6)


def test_sums_are_cut_in_whole_blocks_if_they_fit() -> None:
    sizes = np.full((40, 2), 10)
    assert cut(sizes, 320, 16) == [slice(0, 32), slice(32, 40)]
    assert cut(sizes, 159, 16) is None
    assert cut(sizes[:9], 59, 4) == [slice(0, 4), slice(4, 9)]
