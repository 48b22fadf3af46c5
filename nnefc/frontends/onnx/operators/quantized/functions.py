"""Operators of com.microsoft on codes: computed with reals in float32, and quantized again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.broadcasting import binary
from nnefc.frontends.onnx.operators.elementwise.logic import where
from nnefc.frontends.onnx.operators.neural.channels_last import with_channels_first
from nnefc.frontends.onnx.operators.neural.pooling import average_pool_10, global_average_pool
from nnefc.frontends.onnx.operators.neural.window_attributes import PoolingAttributes
from nnefc.frontends.onnx.operators.reductions import without_axes
from nnefc.frontends.onnx.operators.softmax import softmax_along
from nnefc.frontends.onnx.quantization import check_scale, dequantized, one_item, zero_of
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator
from nnefc.ir import DType


def _quantized(
    make: OpBuilder, real: Operand, scale: Operand, zero: Operand | None, like: Operand
) -> Operand:
    """Codes of reals; an absent zero point is 0 of the type of `like`."""
    check_scale(make, "the scale of the result", scale)
    divisor = one_item(make, "the scale of the result", make.cast(scale, DType.FLOAT32))
    point = one_item(make, "the zero point of the result", zero_of(like, zero))
    return make("quantize", real, divisor, point)


def _real(make: OpBuilder, codes: Operand, scale: Operand, zero: Operand | None) -> Operand:
    """The reals of codes with one scale."""
    check_scale(make, "the scale of an operand", scale)
    factor = one_item(make, "the scale of an operand", scale)
    point = None if zero is None else one_item(make, "the zero point of an operand", zero)
    return dequantized(make, codes, factor, point)


def _register_binary(name: str, operation: str) -> None:
    def function(
        make: OpBuilder,
        A: Operand,
        A_scale: Operand,
        A_zero_point: Operand | None,
        B: Operand,
        B_scale: Operand,
        B_zero_point: Operand | None,
        C_scale: Operand,
        C_zero_point: Operand | None = None,
    ) -> Any:
        a = _real(make, A, A_scale, A_zero_point)
        b = _real(make, B, B_scale, B_zero_point)
        return _quantized(make, binary(make, operation, a, b), C_scale, C_zero_point, A)

    operator(name, domain=MICROSOFT)(function)


_register_binary("QLinearAdd", "add")
_register_binary("QLinearMul", "mul")


def _of_real(
    make: OpBuilder,
    compute: Callable[[Operand], Operand],
    x: Operand,
    scales: tuple[Operand, Operand],
    zeros: tuple[Operand | None, Operand | None],
) -> Operand:
    """The codes of a function of the reals of codes."""
    real = _real(make, x, scales[0], zeros[0])
    return _quantized(make, compute(real), scales[1], zeros[1], x)


@operator("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(
    make: OpBuilder,
    X: Operand,
    X_scale: Operand,
    X_zero_point: Operand | None,
    Y_scale: Operand,
    Y_zero_point: Operand | None = None,
) -> Any:
    zeros = X_zero_point, Y_zero_point
    return _of_real(make, lambda x: make("sigmoid", x), X, (X_scale, Y_scale), zeros)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(
    make: OpBuilder,
    X: Operand,
    X_scale: Operand,
    X_zero_point: Operand | None,
    Y_scale: Operand,
    Y_zero_point: Operand | None = None,
    *,
    alpha: float = 0.01,
) -> Any:
    zeros = X_zero_point, Y_zero_point
    scales = X_scale, Y_scale
    return _of_real(make, lambda x: make("leaky_relu", x, alpha=alpha), X, scales, zeros)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(
    make: OpBuilder,
    X: Operand,
    X_scale: Operand,
    X_zero_point: Operand | None,
    Y_scale: Operand,
    Y_zero_point: Operand,
    *,
    axis: int = -1,
    opset: int,
) -> Any:
    """Along one axis, before version 13 (`opset`) along those from `axis` on."""
    rank = X.type.rank
    at = normalize_axis(axis, rank)
    axes = (at,) if opset >= 13 else tuple(range(at, rank))
    zeros = X_zero_point, Y_zero_point
    return _of_real(make, lambda x: softmax_along(make, x, axes), X, (X_scale, Y_scale), zeros)


@operator("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    make: OpBuilder,
    data: Operand,
    data_scale: Operand,
    data_zero_point: Operand | None,
    reduced_scale: Operand,
    reduced_zero_point: Operand | None = None,
    *,
    axes: Integers,
    keepdims: bool,
) -> Any:
    at = tuple(normalize_axis(axis, data.type.rank) for axis in axes)

    def compute(x: Operand) -> Operand:
        mean = make("mean_reduce", x, axes=at)
        return mean if keepdims else without_axes(make, mean, at)

    zeros = data_zero_point, reduced_zero_point
    return _of_real(make, compute, data, (data_scale, reduced_scale), zeros)


# -- pooling


@operator("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    make: OpBuilder,
    X: Operand,
    x_scale: Operand,
    x_zero_point: Operand | None,
    y_scale: Operand,
    y_zero_point: Operand | None = None,
    *,
    attributes: PoolingAttributes,
    ceil_mode: bool = False,
    channels_last: bool = False,
    count_include_pad: bool = False,
) -> Any:
    def compute(x: Operand) -> Operand:
        return average_pool_10(
            make,
            x,
            attributes=attributes,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )

    zeros = x_zero_point, y_zero_point
    pooled = with_channels_first(make, compute) if channels_last else compute
    return _of_real(make, pooled, X, (x_scale, y_scale), zeros)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    make: OpBuilder,
    X: Operand,
    x_scale: Operand,
    x_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    *,
    channels_last: bool = False,
) -> Any:
    def compute(x: Operand) -> Operand:
        return global_average_pool(make, x)

    zeros = x_zero_point, y_zero_point
    pooled = with_channels_first(make, compute) if channels_last else compute
    return _of_real(make, pooled, X, (x_scale, y_scale), zeros)


# -- several tensors


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(
    make: OpBuilder, Y_scale: Operand, Y_zero_point: Operand, *inputs: Operand, axis: int
) -> Any:
    """`inputs`: codes, scale and zero point of each tensor."""
    if not inputs or len(inputs) % 3:
        message = f"each tensor has a scale and a zero point, but {len(inputs)} inputs are given"
        raise OperatorError("onnx/arguments", message)
    pieces: list[Operand] = []
    for codes, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True):
        if _is_same(scale, Y_scale) and _is_same(zero, Y_zero_point):
            pieces.append(codes)
        else:
            real = _real(make, codes, scale, zero)
            pieces.append(_quantized(make, real, Y_scale, Y_zero_point, codes))
    at = normalize_axis(axis, pieces[0].type.rank)
    return make("concat", pieces, axis=at) if len(pieces) > 1 else pieces[0]


def _is_same(x: Operand, y: Operand) -> bool:
    """Whether two parameters are known to be equal."""
    if not isinstance(x, KnownTensor) or not isinstance(y, KnownTensor):
        return x is y
    return bool(x.dtype is y.dtype and (x.array.reshape(-1) == y.array.reshape(-1)).all())


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    make: OpBuilder,
    condition: Operand,
    X: Operand,
    x_scale: Operand,
    x_zero_point: Operand,
    Y: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    z_scale: Operand,
    z_zero_point: Operand,
) -> Any:
    x = _real(make, X, x_scale, x_zero_point)
    y = _real(make, Y, y_scale, y_zero_point)
    chosen = operand(where(make, condition, x, y))
    return _quantized(make, chosen, z_scale, z_zero_point, X)
