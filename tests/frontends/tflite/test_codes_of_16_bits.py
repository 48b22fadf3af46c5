"""Codes of 16 bits with filters of 8 bits, compared with LiteRT's reference kernels: equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
)

RNG = np.random.default_rng(16)
I16 = "INT16"
Codes = dict[str, Any]


def codes(*shape: int, dtype: str = "int16") -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scaled(*scales: float, axis: int = 0) -> Codes:
    zeros = (0,) * len(scales)
    return {"scale": scales, "zero_point": zeros, "quantized_dimension": axis}


def filter_scales(channels: int) -> tuple[float, ...]:
    return tuple(float(each) for each in RNG.uniform(0.002, 0.02, channels))


def biases(channels: int, dtype: str) -> Constant | None:
    """Biases of int64 are so large that sums exceed int32."""
    if not dtype:
        return None
    most = 2**20 if dtype == "int32" else 2**33
    return Constant(RNG.integers(-most, most, channels).astype(dtype))


def layer(
    name: str,
    inputs: Sequence[Any],
    filter_shape: tuple[int, ...],
    channels: int,
    bias: str,
    shape: tuple[int, ...],
    options: str,
    axis: int = 0,
    per_channel: bool = True,
    **values: Any,
) -> Case:
    """A product with a filter; `inputs` has None where the filter belongs."""
    each = [Constant(codes(*filter_shape, dtype="int8")) if x is None else x for x in inputs]
    scales = filter_scales(channels if per_channel else 1)
    filter_at = next(i for i, x in enumerate(inputs) if x is None)
    data_at = next(i for i, x in enumerate(each) if isinstance(x, np.ndarray))
    added = biases(channels, bias)
    quantization = {data_at: scaled(0.0007), filter_at: scaled(*scales, axis=axis)}
    if added is not None:
        quantization[len(each)] = scaled(*(s * 0.0007 for s in scales))
        each.append(added)
    size = 0.0007 * max(scales) * (2.0**18 if bias == "int64" else 2.0**12)
    quantization[len(each)] = scaled(size)
    return Case(name, each, [(shape, I16)], options, values, 4, quantization)


def conv(bias: str, padding: int, activation: int, *, per_channel: bool = True) -> Case:
    extents = (9, 4) if padding == 0 else (7, 4)
    values = {"padding": padding, "stride_w": 2, "stride_h": 1}
    return layer(
        "CONV_2D",
        [codes(2, 9, 8, 4), None],
        (6, 3, 2, 4),
        6,
        bias,
        (2, *extents, 6),
        "Conv2DOptions",
        per_channel=per_channel,
        fused_activation_function=activation,
        **values,
    )


def depthwise(bias: str) -> Case:
    return layer(
        "DEPTHWISE_CONV_2D",
        [codes(2, 7, 8, 3), None],
        (1, 3, 3, 6),
        6,
        bias,
        (2, 7, 8, 6),
        "DepthwiseConv2DOptions",
        axis=3,
        padding=0,
        stride_w=1,
        stride_h=1,
        depth_multiplier=2,
    )


def transpose_conv(bias: str) -> Case:
    return layer(
        "TRANSPOSE_CONV",
        [Constant(np.array([1, 8, 10, 3], np.int32)), None, codes(1, 4, 5, 4)],
        (3, 3, 2, 4),
        3,
        bias,
        (1, 8, 10, 3),
        "TransposeConvOptions",
        padding=0,
        stride_w=2,
        stride_h=2,
    )


def fully_connected(bias: str, *, per_channel: bool = False, activation: int = 0) -> Case:
    return layer(
        "FULLY_CONNECTED",
        [codes(99, 20), None],
        (64, 20),
        64,
        bias,
        (99, 64),
        "FullyConnectedOptions",
        per_channel=per_channel,
        fused_activation_function=activation,
    )


def long_sums() -> Case:
    """Sums that exceed int32 without a bias."""
    x = RNG.integers(20000, 32768, (3, 3000)).astype(np.int16)
    weights = Constant(RNG.integers(-20, 128, (5, 3000)).astype(np.int8))
    given = {0: scaled(0.001), 1: scaled(0.002), 2: scaled(0.6)}
    options = {"fused_activation_function": 0}
    outputs = [((3, 5), I16)]
    return Case(
        "FULLY_CONNECTED", [x, weights], outputs, "FullyConnectedOptions", options, 4, given
    )


def binary(
    name: str, options: str, activation: int, *scales: float, same: bool = False, **values: Any
) -> Case:
    inputs = [codes(3, 50, 7), codes(3, 50, 7) if same else codes(50, 7)]
    given = {i: scaled(scale) for i, scale in enumerate(scales)}
    all_values = {"fused_activation_function": activation, **values} if options else {}
    return Case(name, inputs, [((3, 50, 7), I16)], options, all_values, 2, given)


def batch_matmul(adj_x: bool, adj_y: bool) -> Case:
    x = codes(2, *((20, 7) if adj_x else (7, 20)))
    y = codes(2, *((9, 20) if adj_y else (20, 9)))
    quantization = {0: scaled(0.001), 1: scaled(0.002), 2: scaled(0.3)}
    values = {"adj_x": adj_x, "adj_y": adj_y}
    outputs = [((2, 7, 9), I16)]
    return Case("BATCH_MATMUL", [x, y], outputs, "BatchMatMulOptions", values, 4, quantization)


def pool(name: str, padding: int, activation: int, window: tuple[int, int] = (2, 3)) -> Case:
    values = {"padding": padding, "stride_w": 2, "stride_h": 1, "filter_width": window[1]}
    values |= {"filter_height": window[0], "fused_activation_function": activation}
    extents = (7, 4) if padding == 0 else (8 - window[0], (8 - window[1]) // 2 + 1)
    outputs = [((2, *extents, 3), I16)]
    given = {0: scaled(0.0005), 1: scaled(0.0005)}
    return Case(name, [codes(2, 7, 8, 3)], outputs, "Pool2DOptions", values, 3, given)


def mean(axes: tuple[int, ...], shape: tuple[int, ...], keep_dims: bool) -> Case:
    inputs = [codes(20, 5, 6, 30), Constant(np.array(axes, np.int32))]
    given = {0: scaled(0.003), 2: scaled(0.001)}
    return Case(
        "MEAN", inputs, [(shape, I16)], "ReducerOptions", {"keep_dims": keep_dims}, 3, given
    )


def resize(kind: str, size: tuple[int, int], **values: bool) -> Case:
    options = "".join(word.title() for word in kind.split("_")) + "Options"
    inputs = [codes(1, 4, 5, 30), Constant(np.array(size, np.int32))]
    given = {0: scaled(0.003), 2: scaled(0.003)}
    return Case(kind, inputs, [((1, *size, 30), I16)], options, values, 3, given)


def unary(
    name: str, scale: float, result: float, options: str = "", version: int = 3, **values: Any
) -> Case:
    every = np.arange(1 << 16).astype(np.uint16).view(np.int16).reshape(256, 256)
    given = {0: scaled(scale), 1: scaled(result)}
    return Case(name, [every], [((256, 256), I16)], options, values, version, given)


def softmax(depth: int, scale: float, beta: float) -> Case:
    given = {0: scaled(scale), 1: scaled(1 / 32768)}
    x = codes(200, depth)
    values = {"beta": beta}
    return Case("SOFTMAX", [x], [((200, depth), I16)], "SoftmaxOptions", values, 3, given)


def conversion(source: str, target: str, before: Codes, after: Codes) -> Case:
    x = np.arange(1 << 16).reshape(256, 256)
    limits = np.iinfo(source)
    x = ((x % (int(limits.max) - int(limits.min) + 1)) + int(limits.min)).astype(source)
    quantization = {0: before, 1: after}
    return Case("QUANTIZE", [x], [((256, 256), target.upper())], "", {}, 2, quantization)


def concatenation() -> Case:
    inputs = [codes(40, 7), codes(40, 7)]
    given = {i: scaled(0.01) for i in range(3)}
    outputs = [((40, 14), I16)]
    return Case("CONCATENATION", inputs, outputs, "ConcatenationOptions", {"axis": 1}, 3, given)


def pad() -> Case:
    inputs = [codes(4, 7), Constant(np.array([[1, 2], [0, 3]], np.int32))]
    given = {i: scaled(0.01) for i in (0, 2)}
    return Case("PAD", inputs, [((7, 10), I16)], "PadOptions", {}, 3, given)


def leaky(alpha: float, scale: float, result: float) -> Case:
    return unary("LEAKY_RELU", scale, result, "LeakyReluOptions", 2, alpha=alpha)


ASYMMETRIC = {"scale": (0.05,), "zero_point": (-7,)}
CASES = [
    *(conv("int64", *each) for each in ((0, 0), (1, 1))),
    conv("int64", 0, 3, per_channel=False),
    depthwise("int64"),
    *(transpose_conv(bias) for bias in ("", "int64")),
    *(fully_connected(bias) for bias in ("", "int64")),
    long_sums(),
    fully_connected("int64", per_channel=True, activation=1),
    *(
        binary(name, options, activation, 0.003, 0.001, result)
        for name, options, result in (
            *(("ADD", "AddOptions", 0.004), ("SUB", "SubOptions", 0.004)),
            ("MUL", "MulOptions", 0.2),
        )
        for activation in (0, 1, 3)
    ),
    *(
        binary(name, options, 0, 2.0**-12, 2.0**-9, 2.0**-9, same=True, **values)
        for name, options in (("ADD", "AddOptions"), ("SUB", "SubOptions"))
        for values in ({}, {"pot_scale_int16": False})
    ),
    *(batch_matmul(*turned) for turned in ((False, False), (True, False), (False, True))),
    *(
        pool(name, padding, activation)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for padding, activation in ((0, 0), (1, 1), (0, 3))
    ),
    mean((1, 2), (20, 30), False),
    mean((1, 2), (20, 1, 1, 30), True),
    mean((3,), (20, 5, 6), False),
    *(
        resize(kind, size, **{name: True} if name else {})
        for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for size in ((7, 9), (3, 2))
        for name in ("", "align_corners", "half_pixel_centers")
    ),
    *(unary("LOGISTIC", scale, 1 / 32768) for scale in (2.0**-12, 0.0003, 0.01)),
    *(unary("TANH", scale, 1 / 32768) for scale in (2.0**-12, 2.0**-13, 0.0003, 0.01)),
    *(softmax(depth, scale, beta) for depth in (3, 1000) for scale, beta in ((2e-4, 1), (1e-3, 2))),
    *(unary(name, 0.002, 0.001, version=2) for name in ("RELU", "RELU6")),
    *(leaky(*each) for each in ((0.1, 0.003, 0.002), (0.25, 0.001, 0.002))),
    conversion("int16", "int16", scaled(0.001), scaled(0.0007)),
    conversion("int8", "int16", ASYMMETRIC, scaled(0.0003)),
    conversion("int16", "int8", scaled(0.0003), ASYMMETRIC),
    concatenation(),
    pad(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_codes_of_16_bits_are_those_of_litert(case: Case) -> None:
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    assert actual.dtype == expected.dtype
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("make", [partial(conv, padding=0, activation=0), fully_connected])
def test_biases_of_32_bits_mean_those_of_64(make: Callable[[str], Case]) -> None:
    """LiteRT 2.3 reads biases of 32 bits as such of 64."""
    narrow = make("int32")
    x, filter, bias = narrow.inputs
    wide = replace(narrow, inputs=[x, filter, Constant(bias.array.astype(np.int64))])
    ((expected,),) = litert_results(content_of(wide), [inputs_of(wide)])
    (actual,) = reference_results(content_of(narrow), inputs_of(narrow))
    assert len(np.unique(expected)) > 50
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*{each.name: each for each in CASES}.values()], ids=str)
def test_compiled_codes_are_those_of_litert(case: Case, tmp_path: Path) -> None:
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    np.testing.assert_array_equal(model(*inputs_of(case)), expected)
