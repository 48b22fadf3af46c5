"""Quantized tensors: integer codes with scale and zero point, real = (code - zero point) scale.

Types come from graph.quant (NNEF 1.0.2, section 5.3) and from tract's names, `QU8(Z:0 S:0.1)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.container import Container
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.quantization import known_zero_point
from nnefc.frontends.common.values import (
    DatumType,
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    Scale,
    operand,
)
from nnefc.ir import DType
from nnefc.ops.extended.quantized import exceeds_float32, is_scale
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits
from nnefc.syntax import ast
from nnefc.syntax.parser import decode, parse_quantization


def read_quantization(
    container: Container, limits: Limits, diagnostics: Diagnostics
) -> ast.QuantizationFile | None:
    """The parsed graph.quant of a container; None if it has none.  Raises NnefError."""
    data, name = container.quantization(), container.quantization_file
    if data is None or name is None:
        return None
    text = decode(data, name, limits=limits, diagnostics=diagnostics)
    return parse_quantization(text, name, limits=limits, diagnostics=diagnostics)


def quantized_types(
    file: ast.QuantizationFile | None, diagnostics: Diagnostics
) -> dict[str, DatumType]:
    """The quantized types in graph.quant, by identifier; errors are reported."""
    types: dict[str, DatumType] = {}
    for entry in file.entries if file else ():
        try:
            types[entry.tensor] = _datum_type(entry.invocation)
        except OperatorError as error:
            place = file.source.place(entry.at) if file else None
            message = f"tensor '{entry.tensor}': {error.message}"
            diagnostics.error(error.rule, message, place, hint=error.hint)
    return types


def _datum_type(invocation: ast.Invocation) -> DatumType:
    """The type that an entry of graph.quant gives; raises OperatorError."""
    values = {a.name: _literal(a.value) for a in invocation.arguments if a.name}
    bits = values.get("bits", 8)
    if bits not in (8, 32) or isinstance(bits, bool):
        message = f"quantization to {bits!r} bits is not supported"
        raise OperatorError("quantization/bits", message, "8 and 32 bits are")
    match invocation.name:
        case "zero_point_linear_quantize":
            signed = bool(values.get("signed", True))
            scale, zero_point = values.get("scale"), values.get("zero_point", 0)
        case "linear_quantize":
            signed = False
            low: Any = values.get("min")
            high: Any = values.get("max")
            if not _is_number(low) or not _is_number(high) or not high > low:
                message = "linear_quantize needs a number min and a number max that is greater"
                raise OperatorError("quantization/range", message)
            scale = (high - low) / (2**bits - 1)
            zero_point = round(-low / _checked_scale(scale))
        case other:
            message = f"there is no quantization '{other}' in this dialect"
            raise OperatorError("quantization/algorithm", message)
    dtype = DType(f"{'' if signed else 'u'}int{bits}")
    scales, zero_points = _several(scale), _several(zero_point)
    if not scales:
        raise OperatorError("quantization/scale", "there are no scales")
    numbers = tuple(map(_checked_scale, scales))
    if not zero_points or any(isinstance(z, bool) or not isinstance(z, int) for z in zero_points):
        message = f"the zero point must be an integer: it is {zero_point!r}"
        raise OperatorError("quantization/zero-point", message)
    if len(set(zero_points)) != 1:
        raise OperatorError("quantization/zero-point", "the zero points of a tensor differ")
    known_zero_point(zero_points[0], dtype)  # raises OperatorError for others
    known: Scale = numbers if scale is scales else numbers[0]
    return DatumType(dtype, False, known, zero_points[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked_scale(scale: Any) -> float:
    """A scale, which must be positive and finite in float32; raises OperatorError."""
    if not _is_number(scale) or not is_scale(scale):
        given = "missing, or no literal" if scale is None else repr(scale)
        message = f"the scale must be a positive and finite number in float32: it is {given}"
        raise OperatorError("quantization/scale", message)
    return float(scale)


def _several(value: Any) -> tuple[Any, ...]:
    """The items of an array, or a tuple of the single value."""
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _literal(expression: ast.Expression) -> Any:
    """The value of a literal, a negated number or an array of these; None for others."""
    match expression:
        case ast.Literal_():
            return expression.value
        case ast.Unary(operator="-", operand=ast.Literal_(value=int() | float() as value)):
            return -value
        case ast.Array():
            return tuple(_literal(item) for item in expression.items)
        case _:
            return None


def quantize(make: OpBuilder, x: Operand, datum: DatumType) -> QuantizedTensor:
    """A tensor of reals quantized to `datum`: rounded to nearest, ties to even, and saturated."""
    assert datum.scale is not None
    check_scales(datum.scale, x)
    scale = broadcast_scale(make, datum.scale, x.type.rank, 0)
    zero = known_zero_point(datum.zero_point, datum.dtype)
    codes = make("quantize", make.cast(x, DType.FLOAT32), scale, zero)
    return QuantizedTensor(codes, datum.scale, datum.zero_point)


def as_real(make: OpBuilder, x: Any) -> Operand:
    """A tensor of reals: a quantized tensor is dequantized, any other value unchanged."""
    return dequantize(make, x) if isinstance(x, QuantizedTensor) else operand(x)


def dequantize(make: OpBuilder, x: QuantizedTensor) -> Operand:
    """The reals (codes - zero point) scale, in float32; raises OperatorError.

    Sums of products are converted by the steps of a requantization.
    """
    check_scales(x.scale, x.codes)
    scale = broadcast_scale(make, x.scale, x.type.rank, 0)
    if x.type.dtype is DType.INT32 and not x.zero_point:
        return make("mul", make.cast(x.codes, DType.FLOAT32), scale)
    return make("dequantize", x.codes, scale, known_zero_point(x.zero_point, x.type.dtype))


def from_codes(make: OpBuilder, codes: Operand, datum: DatumType) -> QuantizedTensor:
    """The quantized tensor of `codes`, which come from a tensor file.

    Raises OperatorError unless a tuple of scales has one for each index of the first dimension.
    """
    assert datum.scale is not None
    check_scales(datum.scale, codes)
    return QuantizedTensor(make.cast(codes, datum.dtype), datum.scale, datum.zero_point)


def check_scales(scale: Scale, x: Operand) -> None:
    """Raise OperatorError unless several scales are one for each index of the first dimension."""
    if isinstance(scale, tuple) and x.type.dims[:1] != (len(scale),):
        message = f"{len(scale)} scales for a tensor of shape {list(x.type.dims)}"
        raise OperatorError("quantization/scale", message)


def broadcast_scale(make: OpBuilder, scale: Scale, rank: int, axis: int) -> Operand:
    """A scale as an operand of tensors of `rank`; scales of an axis get a shape [1, .., n, ..].

    Raises OperatorError for a product of scales that float32 cannot hold.
    """
    if exceeds_float32(np.array(scale)):
        message = f"a product of scales exceeds float32: it is {np.max(scale):.6g}"
        raise OperatorError("quantization/scale", message)
    dims: list[int] = []
    if isinstance(scale, tuple):
        dims = [len(scale) if i == axis else 1 for i in range(rank)]
    return make.reshape(KnownTensor(np.array(scale, np.float32), DType.FLOAT32), dims)


def multiply_scale(scale: Scale, factor: float) -> Scale:
    """A scale, or all scales of an axis, times a factor."""
    return tuple(s * factor for s in scale) if isinstance(scale, tuple) else scale * factor


def with_product_scale(
    make: OpBuilder, sums: Operand, a: QuantizedTensor, b: QuantizedTensor, axis: int
) -> Any:
    """The product of `a` and `b` from the sums of products of their codes less zero points.

    `sums`: integers, or reals if a bias has been added that is not whole.

    An int32 quantized tensor whose scale is the product of the scales; a tensor of reals if `b` has
    one scale per index of an axis, which is `axis` of the result.
    """
    assert not isinstance(a.scale, tuple)
    scale = multiply_scale(b.scale, a.scale)
    if isinstance(scale, tuple):
        real = make.cast(sums, DType.FLOAT32)
        return make("mul", real, broadcast_scale(make, scale, sums.type.rank, axis))
    return QuantizedTensor(make.cast(sums, DType.INT32), scale, 0)
