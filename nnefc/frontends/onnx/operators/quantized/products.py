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
from nnefc.frontends.onnx.quantization import (
    along,
    check_factor,
    check_scale,
    codes_like,
    one_item,
    zero_of,
)
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
        zero_of(a, _per_row(make, "the zero point of the first matrix", a_zero, a, transpose_a)),
        zero_of(
            b, _per_row(make, "the zero point of the second matrix", b_zero, b, not transpose_b)
        ),
    )
    return product(make, a, b, transpose_a=transpose_a, transpose_b=transpose_b, zeros=zeros)


def _per_row(
    make: OpBuilder, name: str, p: Operand | None, matrix: Operand, transposed: bool
) -> Operand | None:
    """A parameter for each row of a matrix, or for each column if `transposed`."""
    if p is None or p.type.rank != 1:
        return p
    if matrix.type.rank < 2:
        return one_item(make, name, p)
    count = matrix.type.dims[-1 if transposed else -2]
    shape = (1, count) if transposed else (count, 1)
    return along(make, name, p, "columns" if transposed else "rows", shape)


def _scales(make: OpBuilder, sums: Operand, a_scale: Operand, b_scale: Operand) -> Operand:
    """The product of the scales of two matrices, for rows and columns of the sums."""
    sides: list[Operand] = []
    for name, scale, is_column in (("a_scale", a_scale, False), ("b_scale", b_scale, True)):
        check_scale(make, name, scale)
        side = _per_row(make, name, make.cast(scale, DType.FLOAT32), sums, is_column)
        assert side is not None
        sides.append(side)
    check_factor(make, "a_scale b_scale", (a_scale, b_scale), None)
    return make("mul", *aligned(make, *sides))


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
    check_factor(make, "a_scale b_scale / y_scale", (a_scale, b_scale), y_scale)
    return _rescaled(make, sums, _scales(make, sums, a_scale, b_scale), y_scale, y_zero_point)


def _rescaled(
    make: OpBuilder, sums: Operand, scale: Operand, y_scale: Operand, zero: Operand
) -> Operand:
    """Codes of sums in units of `scale`; the factor scale / y_scale is rounded once."""
    check_scale(make, "y_scale", y_scale)
    divisor = one_item(make, "y_scale", make.cast(y_scale, DType.FLOAT32))
    factor = make("div", scale, divisor)
    real = make("mul", *aligned(make, make.cast(sums, DType.FLOAT32), factor))
    return codes_like(make, real, one_item(make, "y_zero_point", zero))


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
    scale = _scales(make, sums, a_scale, b_scale)
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
    scale = _scales(make, sums, a_scale, b_scale)
    if alpha != 1:
        scale = make("mul", scale, alpha)
    check_factor(make, "a_scale b_scale / y_scale", (a_scale, b_scale), y_scale)
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
        one_item(make, "x_zero_point", zero_of(x, x_zero_point)),
        _of_filters(make, "w_zero_point", zero_of(w, w_zero_point), w, results=False),
    )
    return convolution(make, "integer_conv", x, w, *zeros, attributes=attributes)


def _of_filters(make: OpBuilder, name: str, p: Operand, w: Operand, *, results: bool) -> Operand:
    """A parameter of the filters w, one or one per filter, for w or for the `results`."""
    count, *others = w.type.dims or (1,)
    shape = (1, count, *[1] * (len(others) - 1)) if results else (count, *[1] * len(others))
    return along(make, name, p, "filters", shape)


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
    if B is not None:
        sums = make("add", sums, _of_filters(make, "B", B, w, results=True))
    check_scale(make, "x_scale", x_scale)
    check_scale(make, "w_scale", w_scale)
    check_factor(make, "x_scale w_scale / y_scale", (x_scale, w_scale), y_scale)
    own, other = make.cast(x_scale, DType.FLOAT32), make.cast(w_scale, DType.FLOAT32)
    factors = _of_filters(make, "w_scale", other, w, results=True)
    scale = make("mul", one_item(make, "x_scale", own), factors)
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
