"""`quantized_decomposed`: conversions between reals and codes, which PT2E puts around operators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.quantization import to_codes
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType
from nnefc.ops.extended.quantized import code_limits


def _overloads(name: str, *overloads: str) -> list[str]:
    return [f"quantized_decomposed.{name}.{each}" for each in overloads]


def quantized(
    make: OpBuilder, x: Operand, scale: Operand, zero: Operand, low: int, high: int, dtype: DType
) -> Operand:
    """Codes from `low` to `high`; scale and zero point broadcast with `x`.

    PyTorch multiplies by the reciprocal of a scale.  Those that a run computes are in no further
    computation, so codes are the same.
    """
    if not dtype.is_integer:
        raise OperatorError("torch/unsupported", f"codes of {dtype} are not supported")
    real, point = make.cast(x, DType.FLOAT32), make.cast(zero, dtype)
    factor, (least, most) = make.cast(scale, DType.FLOAT32), code_limits(dtype)
    if not _is_known(factor):
        codes = to_codes(make, make("mul", real, _reciprocal(make, scale)), point)
    else:
        ends = _bounds(factor, point, low, high)
        if ends is not None and (low > least or high < most):
            return make("quantize", make("clamp", real, *ends), factor, point)
        codes = make("quantize", real, factor, point)
    return _within(make, codes, low, high)


def _reciprocal(make: OpBuilder, scale: Operand) -> Operand:
    return make("div", 1.0, make.cast(scale, DType.FLOAT32))


def _within(make: OpBuilder, codes: Operand, low: int, high: int) -> Operand:
    """Codes from `low` to `high`, where their type has others."""
    least, most = code_limits(codes.type.dtype)
    if low <= least and high >= most:
        return codes
    return make("min", make("max", codes, max(low, least)), min(high, most))


def _is_known(x: Operand) -> bool:
    """Whether a tensor is a constant or a weight."""
    return isinstance(x, KnownTensor) or (x.op is not None and x.op.name == "variable")


def _bounds(scale: Operand, zero: Operand, low: int, high: int) -> tuple[float, float] | None:
    """The reals of two codes; None unless parameters are known, and those of the whole tensor.

    An operator before them can apply such bounds itself.
    """
    if not isinstance(scale, KnownTensor) or not isinstance(zero, KnownTensor) or scale.type.rank:
        return None
    factor, point = float(scale.array), int(zero.array)
    return (low - point) * factor, (high - point) * factor


def dequantized(
    make: OpBuilder, codes: Operand, scale: Operand, zero: Operand, out_dtype: DType | None
) -> Operand:
    point = make.cast(zero, codes.type.dtype)
    reals = make("dequantize", codes, make.cast(scale, DType.FLOAT32), point)
    return make.cast(reals, out_dtype or DType.FLOAT32)


def _parameter(make: OpBuilder, p: Number, dtype: DType) -> Operand:
    """A scale or zero point of a whole tensor, a number or a tensor with one item."""
    return make.reshape(tensor(make, p, dtype), ())


_PER_TENSOR: Final = ("default", "tensor", "tensor2")


@operator(*_overloads("quantize_per_tensor", *_PER_TENSOR))
def quantize_per_tensor(
    make: OpBuilder,
    input: Operand,
    scale: Number,
    zero_point: Number,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Any:
    factor = _parameter(make, scale, DType.FLOAT32)
    point = _parameter(make, zero_point, dtype)
    return quantized(make, input, factor, point, quant_min, quant_max, dtype)


@operator(*_overloads("dequantize_per_tensor", *_PER_TENSOR))
def dequantize_per_tensor(
    make: OpBuilder,
    input: Operand,
    scale: Number,
    zero_point: Number,
    quant_min: Number,
    quant_max: Number,
    dtype: DType,
    out_dtype: DType | None = None,
) -> Any:
    factor = _parameter(make, scale, DType.FLOAT32)
    point = _parameter(make, zero_point, input.type.dtype)
    return dequantized(make, input, factor, point, out_dtype)


def _along(make: OpBuilder, p: Operand | None, x: Operand, axis: int) -> Operand:
    """Parameters of the indices of an axis, in a shape that broadcasts with `x`; None is 0."""
    if p is None:
        return KnownTensor(np.zeros((), np.int64), DType.INT64)
    at = normalize_axis(axis, x.type.rank)
    return make.reshape(p, tuple(n if i == at else 1 for i, n in enumerate(x.type.dims)))


@operator("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Any:
    factors, points = (_along(make, p, input, axis) for p in (scales, zero_points))
    return quantized(make, input, factors, points, quant_min, quant_max, dtype)


@operator("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand | None,
    axis: int,
    quant_min: Number,
    quant_max: Number,
    dtype: DType,
    out_dtype: DType | None = None,
) -> Any:
    factors, points = (_along(make, p, input, axis) for p in (scales, zero_points))
    return dequantized(make, input, factors, points, out_dtype)


@operator("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Any:
    """Scales and zero points [.., 1] of input [.., n]."""
    return _shifted(make, input, scales, zero_points, quant_min, quant_max, dtype)


def _shifted(
    make: OpBuilder, x: Operand, scale: Operand, zero: Operand, low: int, high: int, dtype: DType
) -> Operand:
    """Codes whose zero points are added before the rounding, which matters for halves."""
    units = make("mul", make.cast(x, DType.FLOAT32), _reciprocal(make, scale))
    none = KnownTensor(np.zeros((), dtype.numpy), dtype)
    codes = to_codes(make, make("add", units, make.cast(zero, DType.FLOAT32)), none)
    return _within(make, codes, low, high)


@operator("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: Number,
    quant_max: Number,
    dtype: DType,
    output_dtype: DType | None = None,
) -> Any:
    return dequantized(make, input, scales, zero_points, output_dtype)


@operator("quantized_decomposed.quantize_per_channel_group.default")
def quantize_per_channel_group(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int,
) -> Any:
    """Codes of reals [units, depth] with scales [units, depth / group_size]."""
    count = input.type.volume // group_size
    groups = make.reshape(input, (count, group_size))
    factors, points = (make.reshape(p, (count, 1)) for p in (scales, zero_points))
    codes = _shifted(make, groups, factors, points, quant_min, quant_max, dtype)
    return make.reshape(codes, input.type.dims)


@operator("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    make: OpBuilder,
    input: Operand,
    scales: Operand,
    zero_points: Operand | None,
    quant_min: Number,
    quant_max: Number,
    dtype: DType,
    group_size: int,
    output_dtype: DType | None = None,
) -> Any:
    """Codes [units, depth] with scales [units, depth / group_size]."""
    count = input.type.volume // group_size
    codes = make.reshape(input, (count, group_size))
    zeros = KnownTensor(np.zeros((), np.int64), DType.INT64)
    points = zeros if zero_points is None else make.reshape(zero_points, (count, 1))
    reals = dequantized(make, codes, make.reshape(scales, (count, 1)), points, output_dtype)
    return make.reshape(reals, input.type.dims)


# -- parameters that a run computes


def extremes(make: OpBuilder, x: Operand, axes: tuple[int, ...]) -> tuple[Operand, Operand]:
    """The least and the largest item along axes in float32, with 0 in their range."""
    real = make.cast(x, DType.FLOAT32)
    low = make("min", make("min_reduce", real, axes=axes), 0.0)
    return low, make("max", make("max_reduce", real, axes=axes), 0.0)


def zero_point(
    make: OpBuilder, least: Operand, scale: Operand, quant_min: int, quant_max: int
) -> Operand:
    """The zero point, in float32, with which `least` has the smallest code."""
    steps = make("round_even", make("div", least, scale))
    zero = make("sub", float(quant_min), steps)
    return make("clamp", zero, float(quant_min), float(quant_max))


@operator("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(
    make: OpBuilder, input: Operand, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> Any:
    """The scale and the zero point of the range of a tensor."""
    low, high = extremes(make, input, tuple(range(input.type.rank)))
    width = make("div", make("sub", high, low), float(quant_max - quant_min))
    scale = make("max", width, eps)
    zero = zero_point(make, low, scale, quant_min, quant_max)
    return make.reshape(scale, (1,)), make.reshape(zero, (1,))


@operator("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    make: OpBuilder, input: Operand, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> Any:
    low, high = extremes(make, input, tuple(range(input.type.rank)))
    most = make("max", make("neg", low), high)
    scale = make("max", make("div", most, (quant_max - quant_min) / 2), eps)
    zero = KnownTensor(np.array([128 if dtype is DType.UINT8 else 0]), DType.INT64)
    return make.reshape(scale, (1,)), zero


@operator("quantized_decomposed.choose_qparams_per_token.default")
def choose_qparams_per_token(make: OpBuilder, input: Operand, dtype: DType) -> Any:
    """Scales [.., 1] of int8, and zero points of 0."""
    low, high = extremes(make, input, (input.type.rank - 1,))
    most = make("max", make("neg", low), high)
    scales = make("div", make("max", most, 1e-5), 127.0)
    return scales, make("mul", scales, 0.0)


@operator(*_overloads("choose_qparams_per_token_asymmetric", "default"))
@operator(*_overloads("_choose_qparams_per_token_asymmetric_impl", "default"))
def choose_qparams_per_token_asymmetric(make: OpBuilder, input: Operand, dtype: DType) -> Any:
    """Scales and zero points [.., 1] of int8.

    The end of the range with the smaller error decides about the zero point.
    """
    low, high = extremes(make, input, (input.type.rank - 1,))
    scale = make("max", make("div", make("sub", high, low), 255.0), 2.0**-23)
    first, last = make("div", low, scale), make("div", high, scale)
    errors = make("add", make("add", first, -128.0), make("add", last, 127.0))
    zeros = make("sub", -128.0, first), make("sub", 127.0, last)
    zero = make("clamp", make("select", make("gt", errors, 0.0), *zeros), -128.0, 127.0)
    return scale, make("round_even", zero)


@operator("quantized_decomposed.convert_element_type.no_fuse")
def convert_element_type(make: OpBuilder, input: Operand, dtype: DType) -> Any:
    return make.cast(input, dtype)
