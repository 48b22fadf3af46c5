"""Matrix products and convolutions of codes."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.onnx.broadcasting import aligned
from nnefc.frontends.onnx.operators.neural.channels_last import (
    channels_first,
    with_channels_last,
)
from nnefc.frontends.onnx.operators.neural.convolutions import convolution
from nnefc.frontends.onnx.operators.neural.products import product
from nnefc.frontends.onnx.operators.neural.window_attributes import ConvolutionAttributes
from nnefc.frontends.onnx.operators.quantized.conversions import dynamically_quantized
from nnefc.frontends.onnx.quantization import check_scale, codes_like, zero_of
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


def sums_of_products(
    make: OpBuilder,
    a: Operand,
    b: Operand,
    a_zero: Operand | None,
    b_zero: Operand | None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Operand:
    """(a - a_zero) (b - b_zero) in int32.

    Zero points: one, one per row of a or column of b, or tensors that broadcast.
    """
    zeros = (
        zero_of(a, _per_row(make, a_zero, transpose_a)),
        zero_of(b, _per_row(make, b_zero, not transpose_b)),
    )
    return product(make, a, b, transpose_a=transpose_a, transpose_b=transpose_b, zeros=zeros)


def _per_row(make: OpBuilder, p: Operand | None, transposed: bool) -> Operand | None:
    """A parameter for each row of a matrix, or for each column if `transposed`."""
    if p is None or p.type.rank != 1:
        return p
    if p.type.volume == 1:
        return make.reshape(p, ())
    return make.reshape(p, (1, p.type.volume) if transposed else (p.type.volume, 1))


def _scales(make: OpBuilder, a: Operand, b: Operand) -> Operand:
    """The product of the scales of two matrices, for rows and columns of the result."""
    check_scale(make, a)
    check_scale(make, b)
    left = _per_row(make, make.cast(a, DType.FLOAT32), False)
    right = _per_row(make, make.cast(b, DType.FLOAT32), True)
    assert left is not None and right is not None
    return make("mul", *aligned(make, left, right))


@operator("MatMulInteger", since=10)
def matmul_integer(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
) -> Any:
    return sums_of_products(make, A, B, a_zero_point, b_zero_point)


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    make: OpBuilder,
    a: Operand,
    a_scale: Operand,
    a_zero_point: Operand,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
) -> Any:
    sums = sums_of_products(make, a, b, a_zero_point, b_zero_point)
    return _rescaled(make, sums, _scales(make, a_scale, b_scale), y_scale, y_zero_point)


def _rescaled(
    make: OpBuilder, sums: Operand, scale: Operand, y_scale: Operand, zero: Operand
) -> Operand:
    """Codes of sums in units of `scale`; the factor scale / y_scale is rounded once."""
    check_scale(make, y_scale)
    divisor = make.reshape(make.cast(y_scale, DType.FLOAT32), ())
    factor = make("div", scale, divisor)
    real = make("mul", *aligned(make, make.cast(sums, DType.FLOAT32), factor))
    return codes_like(make, real, zero)


# -- products of com.microsoft


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    a_scale: Operand,
    b_scale: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    bias: Operand | None = None,
) -> Any:
    sums = sums_of_products(make, A, B, a_zero_point, b_zero_point)
    real = make.cast(sums, DType.FLOAT32)
    scale = _scales(make, a_scale, b_scale)
    result = make.cast(make("mul", *aligned(make, real, scale)), a_scale.type.dtype)
    return result if bias is None else make("add", *aligned(make, result, bias))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    make: OpBuilder,
    A: Operand,
    B: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None = None,
    bias: Operand | None = None,
) -> Any:
    codes, scale, zero = dynamically_quantized(make, A)
    return matmul_integer_to_float(make, codes, B, scale, b_scale, zero, b_zero_point, bias)


@operator("QGemm", domain=MICROSOFT)
def qgemm(
    make: OpBuilder,
    A: Operand,
    a_scale: Operand,
    a_zero_point: Operand,
    B: Operand,
    b_scale: Operand,
    b_zero_point: Operand,
    C: Operand | None = None,
    y_scale: Operand | None = None,
    y_zero_point: Operand | None = None,
    *,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Any:
    """alpha A B + C, with C in units of the product's scale; reals without `y_scale`."""
    sums = sums_of_products(
        make, A, B, a_zero_point, b_zero_point, transpose_a=transA, transpose_b=transB
    )
    if C is not None:
        sums = make("add", *aligned(make, sums, C))
    scale = _scales(make, a_scale, b_scale)
    if alpha != 1:
        scale = make("mul", scale, alpha)
    if y_scale is None or y_zero_point is None:
        return make("mul", *aligned(make, make.cast(sums, DType.FLOAT32), scale))
    return _rescaled(make, sums, scale, y_scale, y_zero_point)


# -- convolutions


@operator("ConvInteger", since=10)
def conv_integer(
    make: OpBuilder,
    x: Operand,
    w: Operand,
    x_zero_point: Operand | None = None,
    w_zero_point: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
) -> Any:
    """The convolution of codes less zero points, in int32; padding is the zero point."""
    zeros = (
        make.reshape(zero_of(x, x_zero_point), ()),
        _of_channels(make, zero_of(w, w_zero_point), w),
    )
    return convolution(make, "integer_conv", x, w, *zeros, attributes=attributes)


def _of_channels(make: OpBuilder, p: Operand, w: Operand) -> Operand:
    """A parameter of the filters w: one, or one per filter."""
    if p.type.volume == 1:
        return make.reshape(p, ())
    return make.reshape(p, (p.type.volume, *[1] * (w.type.rank - 1)))


@operator("QLinearConv", since=10)
def qlinear_conv(
    make: OpBuilder,
    x: Operand,
    x_scale: Operand,
    x_zero_point: Operand,
    w: Operand,
    w_scale: Operand,
    w_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    B: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
) -> Any:
    """The convolution of codes; B is in units of x_scale w_scale."""
    sums = conv_integer(make, x, w, x_zero_point, w_zero_point, attributes=attributes)
    spatial = (1,) * (x.type.rank - 2)
    if B is not None:
        sums = make("add", sums, make.reshape(B, (1, B.type.volume, *spatial)))
    check_scale(make, x_scale)
    check_scale(make, w_scale)
    own, other = make.cast(x_scale, DType.FLOAT32), make.cast(w_scale, DType.FLOAT32)
    count = other.type.volume
    factors = make.reshape(other, () if count == 1 else (1, count, *spatial))
    scale = make("mul", make.reshape(own, ()), factors)
    return _rescaled(make, sums, scale, y_scale, y_zero_point)


@operator("QLinearConv", domain=MICROSOFT)
def microsoft_qlinear_conv(
    make: OpBuilder,
    x: Operand,
    x_scale: Operand,
    x_zero_point: Operand,
    w: Operand,
    w_scale: Operand,
    w_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    B: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
    channels_last: bool = False,
) -> Any:
    """`QLinearConv`, with the channels of x and of the result behind if `channels_last`."""
    y = qlinear_conv(
        make,
        channels_first(make, x) if channels_last else x,
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        y_scale,
        y_zero_point,
        B,
        attributes=attributes,
    )
    return with_channels_last(make, y) if channels_last else y
