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

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(21)
ROWS, COLUMNS = 100, 40


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
