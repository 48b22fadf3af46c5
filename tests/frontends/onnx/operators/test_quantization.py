"""Quantization and products of codes against onnxruntime, and against formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model, onnxruntime_results, reals

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"
ONE_CODE: dict[str, Any] = {"domain": MICROSOFT, "atol": 1.01}
"""onnxruntime computes these with tables or rearranged factors: codes may differ by one."""


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    generator = np.random.default_rng([seed, *shape])
    return generator.integers(info.min, info.max, shape, dtype, endpoint=True)


def number(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


# -- quantize and dequantize


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_ties_and_saturation(dtype: Any) -> None:
    x = np.array([0.5, 1.5, -0.5, -1.5, 2.5, 1e9, -1e9, 127.5, 128.5], np.float32)
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype))]
    compare("QuantizeLinear", [x, number(1), number(1, dtype)], types=types)
    compare("QuantizeLinear", [x, number(0.3), number(100, dtype)], types=types)


@pytest.mark.parametrize("version", [10, 13, 19, 21])
def test_quantization_of_versions(version: int) -> None:
    x, types = reals(2, 3, 4), [TensorProto.UINT8]
    compare("QuantizeLinear", [x, number(0.01)], opset=version, types=types)
    y = codes(2, 3, 4)
    types = [TensorProto.FLOAT]
    compare("DequantizeLinear", [y, number(0.1), number(7, np.uint8)], opset=version, types=types)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parameters_per_index(axis: int) -> None:
    x = reals(3, 3, 3)
    scale, zero = np.array([0.1, 0.02, 0.3], np.float32), np.array([1, 128, 9], np.uint8)
    compare("QuantizeLinear", [x, scale, zero], axis=axis, types=[TensorProto.UINT8])
    y = codes(3, 3, 3)
    compare("DequantizeLinear", [y, scale, zero], axis=axis, types=[TensorProto.FLOAT])


@pytest.mark.parametrize("known", [(), (1, 2)])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks(axis: int, known: tuple[int, ...]) -> None:
    x, shape = reals(6, 4), (2, 4) if axis == 0 else (6, 2)
    size = 3 if axis == 0 else 2
    scale, zero = np.abs(reals(*shape, seed=1)) / 50 + 0.01, codes(*shape)
    more: dict[str, Any] = {"axis": axis, "block_size": size, "known": known}
    compare("QuantizeLinear", [x, scale, zero], types=[TensorProto.UINT8], **more)
    compare("DequantizeLinear", [codes(6, 4), scale, zero], types=[TensorProto.FLOAT], **more)


@pytest.mark.parametrize("known", [(), (1, 2)])
@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_scales_that_are_not_positive(scale: float, known: tuple[int, ...]) -> None:
    """Symmetric quantizers of onnxruntime write negative scales."""
    for dtype in (np.uint8, np.int8, np.int16):
        types, zero = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype))], number(3, dtype)
        x = np.array([0.3, 1.5, -0.75, 40, -1e9, 1e9], np.float32)
        compare("QuantizeLinear", [x, number(scale), zero], types=types, known=known)
        given = [codes(6, dtype=dtype), number(scale), zero]
        compare("DequantizeLinear", given, types=[TensorProto.FLOAT], known=known)


@pytest.mark.parametrize("scale", [0.25, -0.25])
def test_the_largest_real_of_a_negative_scale(scale: float) -> None:
    """The largest real has the smallest code then: maxima of codes would be wrong."""
    x = codes(1, 4, 6, 6)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["real"]),
        helper.make_node("MaxPool", ["real"], ["largest"], kernel_shape=[2, 2]),
        helper.make_node("Relu", ["largest"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(number(scale), "scale"),
        numpy_helper.from_array(number(120, np.uint8), "zero"),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "codes", ports[:1], ports[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (expected,) = onnxruntime_results(made, [x])
    compiled = compile_graph(graph_for(made, [x]), CompileConfig.of(1))
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-6)


def test_blocks_of_4_bits_with_negative_scales() -> None:
    narrow = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    w, scale = codes(64, 8, dtype=np.int8) >> 4, reals(2, 8) / 10
    assert scale.min() < 0 < scale.max()
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["real"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(w.astype(narrow), "w"),
        numpy_helper.from_array(scale, "scale"),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 8]),
    ]
    graph = helper.make_graph(nodes, "weights", ports[:1], ports[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    x = reals(3, 64)
    compiled = compile_graph(graph_for(made, [x]), CompileConfig.of(1))
    expected = x @ (w * np.repeat(scale, 32, axis=0))
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-5)


def test_codes_of_32_bits() -> None:
    x = np.array([1 << 30, -(1 << 30), 16777217, 3], np.int32)
    compare("DequantizeLinear", [x, number(0.5)], types=[TensorProto.FLOAT])


@pytest.mark.parametrize("name", ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_narrow_codes_there_and_back(name: str) -> None:
    elem_type = getattr(TensorProto, name)
    narrow = helper.tensor_dtype_to_np_dtype(elem_type)
    x, scale = 6 * reals(40), np.float32(0.75)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["y"]),
    ]
    zero = np.zeros((), narrow)
    constants = [
        numpy_helper.from_array(zero, "zero"),
        numpy_helper.from_array(number(0.75), "scale"),
    ]
    ports = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [40]) for each in "xy"]
    graph = helper.make_graph(nodes, "codes", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (y,) = reference_results(graph_for(model, [x]), [x])
    units = x / scale
    if name.endswith("INT4"):
        low, high = (-8, 7) if name == "INT4" else (0, 15)
        expected = np.clip(np.rint(units), low, high)
    else:
        expected = numpy_helper.saturate_cast(units, narrow).astype(np.float32)
    np.testing.assert_allclose(y, expected * scale, rtol=1e-6)


def test_large_known_codes_of_4_bits() -> None:
    """Weights of a quantized language model: blocks along the rows."""
    narrow = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    w = (np.arange(512 * 256) % 16 - 8).reshape(512, 256)
    scale = np.abs(reals(512, 8)) + 0.1
    node = helper.make_node("DequantizeLinear", ["w", "scale"], ["y"], axis=1, block_size=32)
    constants = [
        numpy_helper.from_array(w.astype(narrow), "w"),
        numpy_helper.from_array(scale, "scale"),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [512, 256])
    graph = helper.make_graph([node], "weights", [], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (y,) = reference_results(graph_for(model, []), [])
    np.testing.assert_allclose(y, w * np.repeat(scale, 32, axis=1), rtol=1e-6)


def test_dynamic_quantization() -> None:
    types = [TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8]
    outputs = [True] * 3
    for x in (reals(5, 7), np.abs(reals(5, 7)), -np.abs(reals(5, 7))):
        compare("DynamicQuantizeLinear", [x], opset=11, types=types, outputs=outputs)


def test_dynamic_quantization_of_zeros() -> None:
    types = [TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8]
    x = np.zeros(3, np.float32)
    compare("DynamicQuantizeLinear", [x], opset=11, types=types, outputs=[True] * 3)


# -- products


@pytest.mark.parametrize("inner", [5, 300, 2000])
@pytest.mark.parametrize("known", [(), (1, 2, 3)])
def test_integer_products_are_exact(inner: int, known: tuple[int, ...]) -> None:
    a, b = codes(3, inner), codes(inner, 4, dtype=np.int8, seed=1)
    a[0], b[:, 0] = 255, -128
    zeros = [number(0, np.uint8), number(7, np.int8)]
    exact = a.astype(np.int64) @ (b.astype(np.int64) - 7)
    types = [TensorProto.INT32]
    expected = [exact.astype(np.int32)]
    (y,) = compare("MatMulInteger", [a, b, *zeros], known=known, types=types, expected=expected)
    assert (y == expected[0]).all()


def test_zero_points_per_row_and_column() -> None:
    a, b = codes(3, 5), codes(5, 4, seed=1)
    rows, columns = codes(3, seed=2), codes(4, seed=3)
    wide = a.astype(np.int32) - rows[:, None], b.astype(np.int32) - columns.astype(np.int32)
    types = [TensorProto.INT32]
    compare("MatMulInteger", [a, b, rows, columns], types=types, expected=[wide[0] @ wide[1]])


@pytest.mark.parametrize("channels", [2, 64])
@pytest.mark.parametrize("known", [(), (1, 2, 3)])
def test_integer_convolution(channels: int, known: tuple[int, ...]) -> None:
    x, w = codes(1, channels, 6, 6), codes(4, channels, 3, 3, seed=1)
    inputs = [x, w, number(3, np.uint8), number(130, np.uint8)]
    more: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 2], "types": [TensorProto.INT32]}
    compare("ConvInteger", inputs, opset=10, known=known, rtol=0, atol=0, **more)


@pytest.mark.parametrize("weights", [np.uint8, np.int8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_convolution(weights: Any, per_channel: bool) -> None:
    x, w = codes(1, 8, 7, 7), codes(6, 4, 3, 3, dtype=weights, seed=1)
    scale = np.abs(reals(6)) / 100 + 0.001 if per_channel else number(0.01)
    zero = np.zeros(6, weights) if per_channel else number(0, weights)
    bias = codes(6, dtype=np.int16).astype(np.int32)
    inputs = [x, number(0.02), number(120, np.uint8), w, scale, zero]
    inputs += [number(0.5), number(110, np.uint8), bias]
    known = tuple(range(1, 9))
    compare("QLinearConv", inputs, known=known, group=2, pads=[1] * 4, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantized_product(dtype: Any) -> None:
    a, b = codes(2, 3, 40, dtype=dtype), codes(40, 5, dtype=dtype, seed=1)
    first = [a, number(0.02), number(3, dtype)]
    second = [b, number(0.03), number(2, dtype)]
    result = [number(1.5), number(10, dtype)]
    inputs = [*first, *second, *result]
    compare("QLinearMatMul", inputs, known=tuple(range(3, 8)), rtol=0, atol=0)


@pytest.mark.parametrize("with_bias", [False, True])
def test_integer_product_to_reals(with_bias: bool) -> None:
    inputs = [codes(3, 16), codes(16, 4, dtype=np.int8), number(0.1)]
    inputs += [np.abs(reals(4)), number(9, np.uint8), number(0, np.int8)]
    inputs += [reals(4)] if with_bias else []
    types = [TensorProto.FLOAT]
    compare("MatMulIntegerToFloat", inputs, domain=MICROSOFT, types=types)


def test_dynamically_quantized_product() -> None:
    inputs = [reals(3, 16), codes(16, 4, dtype=np.int8), number(0.1), number(0, np.int8), reals(4)]
    compare("DynamicQuantizeMatMul", inputs, domain=MICROSOFT, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("reals_out", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_quantized_gemm(transposed: bool, reals_out: bool) -> None:
    b = codes(5, 16) if transposed else codes(16, 5)
    bias = codes(5, dtype=np.int16).astype(np.int32)
    inputs = [codes(3, 16), number(0.1), number(100, np.uint8), b, number(0.2)]
    inputs += [number(90, np.uint8), bias]
    inputs += [] if reals_out else [number(9.5), number(128, np.uint8)]
    types = [TensorProto.FLOAT if reals_out else TensorProto.UINT8]
    compare("QGemm", inputs, domain=MICROSOFT, transB=int(transposed), types=types)


# -- operators of onnxruntime on codes


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_quantized_arithmetic(operator: str, dtype: Any) -> None:
    inputs = [codes(2, 3, 4, dtype=dtype), number(0.1), number(5, dtype)]
    inputs += [codes(3, 1, dtype=dtype, seed=1), number(0.2), number(3, dtype)]
    inputs += [number(0.3 if operator == "QLinearAdd" else 5), number(7, dtype)]
    compare(operator, inputs, **ONE_CODE)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}),
    ],
)
def test_quantized_function(operator: str, attributes: dict[str, Any]) -> None:
    inputs = [codes(2, 4, 6, 5), number(0.05), number(128, np.uint8)]
    inputs += [number(0.03), number(3, np.uint8)]
    compare(operator, inputs, known=(1, 2, 3, 4), **attributes, **ONE_CODE)


@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 11)])
def test_quantized_softmax(axis: int, opset: int) -> None:
    inputs = [codes(2, 4, 6), number(0.05), number(128, np.uint8)]
    inputs += [number(1 / 256), number(3, np.uint8)]
    model = node_model("QLinearSoftmax", inputs, domain=MICROSOFT, known=(1, 2, 3, 4), axis=axis)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    (want,) = onnxruntime_results(model, inputs[:1])
    (y,) = reference_results(graph_for(model, inputs[:1]), inputs[:1])
    assert np.abs(y.astype(int) - want.astype(int)).max() <= 1


def test_quantized_concatenation() -> None:
    inputs = [number(0.1), number(5, np.uint8)]
    inputs += [codes(2, 3), number(0.1), number(5, np.uint8)]
    inputs += [codes(2, 4), number(0.2), number(9, np.uint8)]
    known, types = (0, 1, 3, 4, 6, 7), [TensorProto.UINT8]
    compare("QLinearConcat", inputs, known=known, axis=1, types=types, **ONE_CODE)


@pytest.mark.parametrize("inner", [16, 2001])
def test_compiled_sums_are_exact(inner: int) -> None:
    """The interpreter computes in float64, kernels in float32 where that is exact."""
    a, b = np.full((2, inner), 255, np.uint8), np.full((inner, 3), 255, np.uint8)
    b[-1] = 254
    model = node_model("MatMulInteger", [a, b], types=[TensorProto.INT32])
    (expected,) = onnxruntime_results(model, [a, b])
    y = compile_graph(graph_for(model, [a, b]), CompileConfig(1))(a, b)
    np.testing.assert_array_equal(y, expected)


def test_compiled_sums_of_many_known_weights() -> None:
    x, w = codes(1, 600, 3, 5), codes(128, 600, 1, 1, dtype=np.int8)
    model = node_model("ConvInteger", [x, w], known=(1,), types=[TensorProto.INT32])
    y = compile_graph(graph_for(model, [x]), CompileConfig(1))(x)
    exact = np.einsum("bihw,oiyx->bohw", x.astype(np.int64), w.astype(np.int64))
    np.testing.assert_array_equal(y, exact)


def test_compiled_convolution_of_three_by_three_taps_is_exact() -> None:
    """Winograd's algorithm would be faster in floats, but round."""
    x, w = codes(1, 64, 24, 24), codes(64, 64, 3, 3, dtype=np.int8)
    model = node_model("ConvInteger", [x, w], known=(1,), pads=[1] * 4, types=[TensorProto.INT32])
    y = compile_graph(graph_for(model, [x]), CompileConfig(1))(x)
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(y, np.einsum("bihwyx,oiyx->bohw", taps, w.astype(np.int64)))
