"""Operators on codes, compared with LiteRT's reference kernels: equal, or one unit for tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.tflite.fixed_point import quantize_multiplier, rounded_away
from nnefc.support.errors import NnefError
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)
from tests.helpers.tflite.operators_on_codes import halves

RNG = np.random.default_rng(26)
U8, I8 = "UINT8", "INT8"
Codes = dict[str, Any]


def codes(type_: str, *shape: int) -> Array:
    limits = np.iinfo(type_.lower())
    return RNG.integers(limits.min, limits.max + 1, shape).astype(type_.lower())


def params(type_: str) -> Codes:
    """A random scale and zero point."""
    zero = int(RNG.integers(100, 150)) if type_ == U8 else int(RNG.integers(-20, 20))
    return {"scale": (float(RNG.uniform(0.005, 0.05)),), "zero_point": (zero,)}


def scaled(scale: float, zero: int = 0) -> Codes:
    return {"scale": (scale,), "zero_point": (zero,)}


def binary(name: str, options: str, type_: str, activation: int = 0) -> Case:
    inputs = [codes(type_, 3, 5, 7), codes(type_, 5, 7)]
    given = {i: params(type_) for i in range(3)}
    values = {"fused_activation_function": activation} if options else {}
    return Case(name, inputs, [((3, 5, 7), type_)], options, values, 2, given)


def layer(type_: str, channels: int, depth: int, *, per_channel: bool) -> tuple[list[Codes], Codes]:
    """Parameters of filter and bias for an input with the returned ones."""
    given = params(type_)
    count = channels if per_channel else 1
    zero = int(RNG.integers(100, 150)) if type_ == U8 else 0
    scale = tuple(float(each) for each in RNG.uniform(0.002, 0.02, count))
    filter = {"scale": scale, "zero_point": (zero,) * count}
    bias = {"scale": tuple(s * given["scale"][0] for s in scale), "zero_point": (0,) * count}
    del depth
    return [filter, bias], given


def bias(channels: int) -> Constant:
    return Constant(RNG.integers(-3000, 3000, channels).astype(np.int32))


def conv(type_: str, *, per_channel: bool, padding: int, activation: int) -> Case:
    (filter, offset), given = layer(type_, 6, 12, per_channel=per_channel)
    filter["quantized_dimension"] = offset["quantized_dimension"] = 0
    weights = Constant(codes(type_, 6, 3, 2, 4))
    values = {"padding": padding, "stride_w": 2, "stride_h": 1}
    values["fused_activation_function"] = activation
    extents = (9, 4) if padding == 0 else (7, 4)
    quantization = {0: given, 1: filter, 2: offset, 3: scaled(0.4, given["zero_point"][0])}
    inputs = [codes(type_, 2, 9, 8, 4), weights, bias(6)]
    outputs = [((2, *extents, 6), type_)]
    return Case("CONV_2D", inputs, outputs, "Conv2DOptions", values, 3, quantization)


def depthwise(type_: str, *, per_channel: bool) -> Case:
    (filter, offset), given = layer(type_, 6, 9, per_channel=per_channel)
    filter["quantized_dimension"] = 3
    values = {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 2}
    quantization = {0: given, 1: filter, 2: offset, 3: scaled(0.2, given["zero_point"][0])}
    inputs = [codes(type_, 2, 7, 8, 3), Constant(codes(type_, 1, 3, 3, 6)), bias(6)]
    outputs = [((2, 7, 8, 6), type_)]
    options = "DepthwiseConv2DOptions"
    return Case("DEPTHWISE_CONV_2D", inputs, outputs, options, values, 3, quantization)


def transpose_conv(type_: str) -> Case:
    (filter, offset), given = layer(type_, 3, 9, per_channel=type_ == I8)
    filter["quantized_dimension"] = 0
    values = {"padding": 0, "stride_w": 2, "stride_h": 2}
    shape = Constant(np.array([1, 8, 10, 3], np.int32))
    inputs = [shape, Constant(codes(type_, 3, 3, 2, 4)), codes(type_, 1, 4, 5, 4), bias(3)]
    zero = given["zero_point"][0]
    quantization = {1: filter, 2: given, 3: offset, 4: scaled(0.3, zero)}
    outputs = [((1, 8, 10, 3), type_)]
    return Case("TRANSPOSE_CONV", inputs, outputs, "TransposeConvOptions", values, 3, quantization)


def fully_connected(type_: str, activation: int) -> Case:
    """As many results as show how ties of the first rounding are rounded."""
    (filter, offset), given = layer(type_, 64, 20, per_channel=False)
    inputs = [codes(type_, 99, 20), Constant(codes(type_, 64, 20)), bias(64)]
    quantization = {0: given, 1: filter, 2: offset, 3: scaled(0.02, given["zero_point"][0])}
    values = {"fused_activation_function": activation}
    options = "FullyConnectedOptions"
    return Case("FULLY_CONNECTED", inputs, [((99, 64), type_)], options, values, 4, quantization)


def pool(name: str, type_: str, padding: int, activation: int = 0) -> Case:
    values = {"padding": padding, "stride_w": 2, "stride_h": 1, "filter_width": 3}
    values |= {"filter_height": 2, "fused_activation_function": activation}
    given = scaled(0.05, 120 if type_ == U8 else -7)
    extents = (7, 4) if padding == 0 else (6, 3)
    outputs = [((2, *extents, 3), type_)]
    inputs = [codes(type_, 2, 7, 8, 3)]
    return Case(name, inputs, outputs, "Pool2DOptions", values, 2, {0: given, 1: given})


def mean(type_: str, axes: tuple[int, ...], shape: tuple[int, ...], keep_dims: bool) -> Case:
    inputs = [codes(type_, 2, 5, 6, 3), Constant(np.array(axes, np.int32))]
    quantization = {0: params(type_), 2: params(type_)}
    values = {"keep_dims": keep_dims}
    return Case("MEAN", inputs, [(shape, type_)], "ReducerOptions", values, 2, quantization)


def resize(type_: str, size: tuple[int, int], **values: bool) -> Case:
    given = params(type_)
    inputs = [codes(type_, 1, 4, 5, 3), Constant(np.array(size, np.int32))]
    outputs = [((1, *size, 3), type_)]
    quantization = {0: given, 2: given}
    return Case(
        "RESIZE_BILINEAR", inputs, outputs, "ResizeBilinearOptions", values, 3, quantization
    )


def concatenation(type_: str) -> Case:
    given = params(type_)
    each = [given, params(type_) if type_ == U8 else given]
    inputs = [codes(type_, 40, 7), codes(type_, 40, 7)]
    result = params(type_) if type_ == U8 else given
    quantization = {0: each[0], 1: each[1], 2: result}
    outputs = [((40, 14), type_)]
    values = {"axis": 1}
    return Case("CONCATENATION", inputs, outputs, "ConcatenationOptions", values, 2, quantization)


def requantization(name: str, type_: str) -> Case:
    every = np.arange(256).astype(np.uint8).view(type_.lower()).reshape(16, 16)
    quantization = {0: params(type_), 1: params(type_)}
    return Case(name, [every], [((16, 16), type_)], "", {}, 2, quantization)


def hard_swish(scale: float) -> Case:
    """All codes, of an input with this scale."""
    every = np.arange(-128, 128).astype(np.int8)
    given = {0: scaled(scale, -7), 1: scaled(scale * 0.8, -19)}
    return Case("HARD_SWISH", [every], [((256,), I8)], "HardSwishOptions", {}, 1, given)


def table(name: str, type_: str, result: Codes, options: str = "", **values: Any) -> Case:
    every = np.arange(256).astype(np.uint8).view(type_.lower()).reshape(16, 16)
    given = scaled(0.05, 128 if type_ == U8 else 3)
    quantization = {0: given, 1: result}
    version = 1 if name == "HARD_SWISH" else 2
    return Case(name, [every], [((16, 16), type_)], options, values, version, quantization)


RESIZED = [
    resize(type_, size, **{name: True} if name else {})
    for type_ in (U8, I8)
    for size in ((7, 9), (3, 2))
    for name in ("", "align_corners", "half_pixel_centers")
]
EXACT = [
    *(
        binary(name, options, type_, activation)
        for type_ in (U8, I8)
        for name, options in (
            *(("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")),
        )
        for activation in (0, 1, 3)
    ),
    *(
        conv(type_, per_channel=type_ == I8, padding=padding, activation=activation)
        for type_ in (U8, I8)
        for padding, activation in ((0, 0), (1, 1), (0, 3))
    ),
    conv(I8, per_channel=False, padding=0, activation=2),
    *(depthwise(type_, per_channel=type_ == I8) for type_ in (U8, I8)),
    *(transpose_conv(type_) for type_ in (U8, I8)),
    *(fully_connected(type_, activation) for type_ in (U8, I8) for activation in (0, 1, 3)),
    *(
        pool(name, type_, padding, activation)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for type_ in (U8, I8)
        for padding, activation in ((0, 0), (1, 1), (0, 3))
    ),
    *(
        mean(type_, axes, shape, keep_dims)
        for type_ in (U8, I8)
        for axes, shape, keep_dims in (
            ((1, 2), (2, 3), False),
            ((1, 2), (2, 1, 1, 3), True),
            ((3,), (2, 5, 6), False),
        )
    ),
    *(each for each in RESIZED if each.outputs[0][1] == I8),
    *(concatenation(type_) for type_ in (U8, I8)),
    *(requantization(name, type_) for name in ("RELU", "RELU6") for type_ in (U8, I8)),
    *(table("HARD_SWISH", I8, scaled(scale, 3)) for scale in (0.04, 0.02, 0.1)),
    *(hard_swish(scale) for scale in (0.0007, 0.009, 0.045, 0.3, 1.5)),
]
TABLES = [
    *(each for each in RESIZED if each.outputs[0][1] == U8),
    *(
        table(name, type_, scaled(scale, zero), options, **values)
        for type_, low, middle in ((U8, 0, 128), (I8, -128, 0))
        for name, scale, zero, options, values in (
            ("LOGISTIC", 1 / 256, low, "", {}),
            ("TANH", 1 / 128, middle, "", {}),
            ("SOFTMAX", 1 / 256, low, "SoftmaxOptions", {"beta": 1.0}),
            ("L2_NORMALIZATION", 1 / 128, middle, "L2NormOptions", {}),
            ("LEAKY_RELU", 0.03, middle, "LeakyReluOptions", {"alpha": 0.1}),
        )
    ),
]


def differences(case: Case) -> Array:
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert len(np.unique(expected)) > 1
    return np.abs(actual.astype(int) - expected.astype(int))


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_codes_are_those_of_litert(case: Case) -> None:
    assert differences(case).max() == 0


@pytest.mark.parametrize("case", TABLES, ids=str)
def test_tables_differ_by_at_most_one(case: Case) -> None:
    assert differences(case).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("case", RESIZED, ids=str)
def test_compiled_resampling_is_exact(case: Case, tmp_path: Path) -> None:
    """uint8 is interpolated in float32, while the reference interpreter has float64."""
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    calls = [[codes(case.outputs[0][1], 1, 4, 5, 3)] for _ in range(5)]
    for inputs, (expected,) in zip(calls, litert_results(content, calls), strict=True):
        np.testing.assert_array_equal(model(*inputs), expected)


def test_exact_halves_of_reals_are_rounded_away_from_zero(tmp_path: Path) -> None:
    """Interpreted and compiled."""
    for type_ in (I8, U8, "INT16"):
        content = content_of(halves(type_))
        ((expected,),) = litert_results(content, [inputs_of(halves(type_))])
        assert np.all(differences(halves(type_)) == 0), type_
        (tmp_path / "net.tflite").write_bytes(content)
        found = nnefc.compile(tmp_path / "net.tflite")(*inputs_of(halves(type_)))
        np.testing.assert_array_equal(found, expected)


def test_multipliers() -> None:
    """The fraction has 31 bits, and the product with the shift is the factor."""
    for real in (1.0, 0.5, 0.75, 0.1, 3.0, 1e-5, 123.4, 2.0**-20, 1 - 2.0**-40):
        multiplier, shift = quantize_multiplier(real)
        assert 1 << 30 <= multiplier < 1 << 31
        assert multiplier / 2**31 * 2.0**shift == pytest.approx(real, rel=2**-31)
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(2.0**-40) == (0, 0)
    assert [rounded_away(x) for x in (0.5, -0.5, 1.4, -2.5)] == [1, -1, 1, -3]


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ({}, "tensor 0 't0' has no scale"),
        ({0: scaled(0.0), 1: scaled(1.0), 2: scaled(1.0)}, "a scale of tensor 0 't0' is 0"),
        ({0: scaled(1.0, 300), 1: scaled(1.0), 2: scaled(1.0)}, "the zero point 300 of tensor 0"),
        (
            {0: {"scale": (1.0, 1.0), "zero_point": (0, 0)}, 1: scaled(1.0), 2: scaled(1.0)},
            "tensor 0 't0' has 2 scales",
        ),
        ({0: scaled(1e30), 1: scaled(1e-30), 2: scaled(1e-30)}, "a requantization"),
    ],
)
def test_errors_name_the_tensor(quantization: dict[int, Codes], message: str) -> None:
    inputs = [codes(I8, 2), codes(I8, 2)]
    case = Case("ADD", inputs, [((2,), I8)], "AddOptions", {}, 2, quantization)
    with pytest.raises(NnefError, match="operator 0") as caught:
        source_of(content_of(case)).graph({})
    assert message in str(caught.value)
    assert caught.value.errors[0].rule == "tflite/quantization"
