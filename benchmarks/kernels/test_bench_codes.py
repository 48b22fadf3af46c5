"""Products and convolutions of codes, against onnxruntime and the peak of integer dots."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (onnxruntime is untyped)

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import nnefc
from nnefc.runtime.machine.roofline import measure_dots

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def peak() -> float:
    """10^9 products of bytes per second of one thread."""
    return measure_dots(1, 0.5)


def _model(m: int, k: int, n: int) -> onnx.ModelProto:
    """QLinearMatMul of uint8 with known int8."""
    weights = np.random.default_rng(0).integers(-127, 128, (k, n)).astype(np.int8)
    known: dict[str, Array] = {
        "a_scale": np.array(0.02, np.float32),
        "a_zero": np.array(128, np.uint8),
        "b": weights,
        "b_scale": np.array(0.01, np.float32),
        "b_zero": np.array(0, np.int8),
        "y_scale": np.array(0.01 * k**0.5, np.float32),
        "y_zero": np.array(128, np.uint8),
    }
    return _of_node(helper.make_node("QLinearMatMul", ["a", *known], ["y"]), (m, k), known)


def _of_node(node: onnx.NodeProto, shape: tuple[int, ...], known: dict[str, Array]) -> Any:
    """The model of one node with the input a, the result y and known operands."""
    result = [None] * len(shape)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, result)],
        [numpy_helper.from_array(items, name) for name, items in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _calls(implementation: str, path: Path, a: Array) -> Callable[[], Any]:
    """A function that computes the product on one thread."""
    if implementation == "nnefc":
        model = nnefc.compile(nnefc.import_model(path), threads=1)
        out = np.empty(model.outputs[0].shape, np.uint8)
        return lambda: model(a, out=out)
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"a": a})[0]


@pytest.mark.parametrize("implementation", ["nnefc", "onnxruntime"])
@pytest.mark.parametrize(("m", "k", "n"), [(128, 768, 3072), (128, 3072, 768), (196, 256, 1024)])
def test_product_of_codes(
    benchmark: Any, tmp_path: Path, peak: float, implementation: str, m: int, k: int, n: int
) -> None:
    path = tmp_path / "product.onnx"
    onnx.save(_model(m, k, n), path)
    a = np.random.default_rng(1).integers(0, 256, (m, k)).astype(np.uint8)
    call = _calls(implementation, path, a)
    np.testing.assert_array_equal(call(), _calls("onnxruntime", path, a)())
    benchmark.group = f"{m}x{k}x{n}"
    benchmark(call)
    if benchmark.stats is not None:  # None with --benchmark-disable
        speed = m * k * n / benchmark.stats.stats.min / 1e9
        benchmark.extra_info["GMAC/s"] = round(speed, 1)
        benchmark.extra_info["share of limit"] = round(speed / peak, 3)


def _convolution(
    inputs: int, outputs: int, size: int, extent: int, stride: int, groups: int
) -> Any:
    """QLinearConv of uint8 with known int8."""
    depth = inputs // groups
    w = np.random.default_rng(0).integers(-127, 128, (outputs, depth, size, size))
    known: dict[str, Array] = {
        "a_scale": np.array(0.02, np.float32),
        "a_zero": np.array(128, np.uint8),
        "w": w.astype(np.int8),
        "w_scale": np.array(0.01, np.float32),
        "w_zero": np.array(0, np.int8),
        "y_scale": np.array(0.01 * size * depth**0.5, np.float32),
        "y_zero": np.array(128, np.uint8),
    }
    steps: dict[str, Any] = {"pads": [size // 2] * 4, "strides": [stride] * 2, "group": groups}
    node = helper.make_node("QLinearConv", ["a", *known], ["y"], **steps)
    return _of_node(node, (1, inputs, extent, extent), known)


@pytest.mark.parametrize("implementation", ["nnefc", "onnxruntime"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "extent", "stride", "groups"),
    [
        *((3, 64, 7, 224, 2, 1), (3, 32, 3, 224, 2, 1), (128, 128, 3, 28, 1, 1)),
        *((64, 256, 1, 56, 1, 1), (144, 144, 3, 56, 1, 144), (144, 144, 3, 56, 2, 144)),
        *((576, 576, 3, 14, 1, 576), (128, 128, 3, 56, 1, 32)),
    ],
)
def test_convolution_of_codes(
    benchmark: Any,
    tmp_path: Path,
    peak: float,
    implementation: str,
    inputs: int,
    outputs: int,
    size: int,
    extent: int,
    stride: int,
    groups: int,
) -> None:
    """With the changes of layout that a single layer needs before and behind it."""
    path = tmp_path / "convolution.onnx"
    onnx.save(_convolution(inputs, outputs, size, extent, stride, groups), path)
    a = np.random.default_rng(1).integers(0, 256, (1, inputs, extent, extent)).astype(np.uint8)
    call = _calls(implementation, path, a)
    result = call()
    np.testing.assert_array_equal(result, _calls("onnxruntime", path, a)())
    kind = "depthwise" if groups == inputs else f"{inputs}to{outputs}g{groups}"
    benchmark.group = f"{kind}_{size}s{stride}_{inputs}x{extent}"
    benchmark(call)
    if benchmark.stats is not None:  # None with --benchmark-disable
        macs = result.size * inputs // groups * size**2
        speed = macs / benchmark.stats.stats.min / 1e9
        benchmark.extra_info["GMAC/s"] = round(speed, 1)
        benchmark.extra_info["share of limit"] = round(speed / peak, 3)
