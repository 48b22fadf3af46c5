"""Conversions between real numbers and codes."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.operators.elementwise.casts import converted, elem_type_of
from nnefc.frontends.onnx.operators.quantized.known_blocks import known_blocks
from nnefc.frontends.onnx.operators.reductions import extreme
from nnefc.frontends.onnx.quantization import dequantized, parameter, quantized
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.frontends.onnx.tensors import dtype_of, type_name
from nnefc.ir import DType


@operator("QuantizeLinear", since=10)
@operator("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(
    make: OpBuilder,
    x: Operand,
    y_scale: Operand,
    y_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: bool = True,
) -> Any:
    """round(x / y_scale) + y_zero_point, ties to even, saturated.

    The quotient is computed in float32, or in the type `precision`.
    """
    elem_type = output_dtype or TensorProto.UINT8
    if y_zero_point is not None:
        elem_type = elem_type_of(y_zero_point)
        if output_dtype not in (0, elem_type):
            names = f"{type_name(output_dtype)}, y_zero_point {type_name(elem_type)}"
            raise OperatorError("onnx/type", f"output_dtype is {names}")
    dtype = dtype_of(precision) if precision else DType.FLOAT32
    if dtype is None or not dtype.is_float:
        raise OperatorError("onnx/unsupported", f"precision is {type_name(precision)}")
    real, scale, blocks = make.cast(x, DType.FLOAT32), y_scale, (axis, block_size)
    if dtype is not DType.FLOAT32:
        factor = parameter(make, make.cast(scale, dtype), x, *blocks)
        real = make.cast(make("div", make.cast(x, dtype), factor), DType.FLOAT32)
        scale = constant(real, 1)
    return quantized(make, real, scale, y_zero_point, elem_type, *blocks, saturate=saturate)


@operator("DequantizeLinear", since=10)
@operator("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(
    make: OpBuilder,
    x: Any,
    x_scale: Operand,
    x_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    """(x - x_zero_point) x_scale, computed in float32."""
    elem_type = output_dtype or elem_type_of(x_scale)
    real: Operand | None = None
    if block_size:
        may_stay = elem_type == TensorProto.FLOAT
        blocks = axis, block_size
        real = known_blocks(make, x, x_scale, x_zero_point, *blocks, may_stay=may_stay)
    if real is None:
        real = dequantized(make, x, x_scale, x_zero_point, axis, block_size)
    return converted(make, real, elem_type)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(make: OpBuilder, x: Operand) -> Any:
    """Codes in uint8, their scale and zero point, for the range of x with 0 in it."""
    return dynamically_quantized(make, x)


def dynamically_quantized(make: OpBuilder, x: Operand) -> tuple[Operand, Operand, Operand]:
    """Codes, scale and zero point of a tensor of reals."""
    axes = tuple(range(x.type.rank))
    low, high = (
        make.reshape(make(limit, extreme(make, name, x, axes), constant(x, 0)), ())
        for limit, name in (("min", "min_reduce"), ("max", "max_reduce"))
    )
    width = make("sub", high, low)
    quotient = make("div", width, constant(x, 255))
    scale = make("select", make("eq", width, constant(x, 0)), constant(x, 1), quotient)
    from_low = make("sub", constant(x, 0), make("div", low, scale))
    limited = make("clamp", from_low, constant(x, 0), constant(x, 255))
    zero = make.cast(make("round_even", limited), DType.UINT8)
    return make("quantize", x, scale, zero), scale, zero
