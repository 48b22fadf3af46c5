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
from nnefc.passes.quantize.convolutions_as_products import ConvolutionsAsProducts

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


@pytest.mark.slow
@pytest.mark.parametrize("channels", [5, 400], ids=["one sum", "parts"])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_convolutions_are_products(dtype: str, channels: int, tmp_path: Path) -> None:
    """A window of 3 x 3 with a border of zeros, then a clamp, by the formula in float64."""
    layer = Layer(dtype, 9 * channels)
    weights = layer.weights.T.reshape(COLUMNS, channels, 3, 3)
    model, shape = layer.model(), (1, channels, 9, 8)
    nodes, known = model.graph.node, model.graph.initializer
    for each in known:
        if each.name == "w":
            each.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights), "w"))
    nodes[2].attribute[0].i = 0
    nodes[3].CopyFrom(helper.make_node("Conv", ["a", "v", "b"], ["sums"], pads=[1, 1, 1, 1]))
    nodes[4].CopyFrom(helper.make_node("Relu", ["sums"], ["c"]))
    for value, dims in ((model.graph.input[0], shape), (model.graph.output[0], (1, 40, 9, 8))):
        value.CopyFrom(
            helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, dims)
        )
    path = tmp_path / "layer.onnx"
    path.write_bytes(model.SerializeToString())
    compiled: Any = nnefc.compile(path, keep=False, strict_quantization=True)
    x = RNG.normal(size=shape).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[0]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    rows = windows.transpose(1, 2, 0, 3, 4).reshape(72, -1)
    want = np.maximum(layer.results(rows), layer.zero).astype(int).T.reshape(1, COLUMNS, 9, 8)
    assert len(np.unique(want)) > 200
    differences = np.abs(np.asarray(compiled(x)).astype(int) - want)
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
    assert not ConvolutionsAsProducts().run(graph)
    assert convolution_reason(op, KnownValues(graph)) == "there are no products"
