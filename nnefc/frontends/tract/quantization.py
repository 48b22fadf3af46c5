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
        place = file.source.place(entry.at) if file else None
        arguments = {a.name: a.value for a in entry.invocation.arguments}
        values = {name: _literal(value) for name, value in arguments.items() if name}
        bits = values.get("bits", 8)
        if bits not in (8, 32):
            message = f"quantization to {bits} bits is not supported"
            diagnostics.error("quantization/bits", message, place, hint="8 and 32 bits are")
            continue
        match entry.invocation.name:
            case "zero_point_linear_quantize":
                signed = bool(values.get("signed", True))
                scale, zero_point = values.get("scale"), values.get("zero_point", 0)
            case "linear_quantize":
                signed = False
                low, high = values.get("min"), values.get("max")
                if low is None or high is None or not high > low:
                    message = "linear_quantize needs a min and a max that is greater"
                    diagnostics.error("quantization/range", message, place)
                    continue
                scale = (high - low) / (2**bits - 1)
                zero_point = round(-low / scale)
            case other:
                message = f"there is no quantization '{other}' in this dialect"
                diagnostics.error("quantization/algorithm", message, place)
                continue
        scales, zero_points = _several(scale), _several(zero_point)
        if not scales or any(s is None or not s > 0 for s in scales):
            message = f"the scale must be greater than 0, not {scale}"
            diagnostics.error("quantization/scale", message, place)
            continue
        if len(set(zero_points)) != 1:
            message = "the zero points of a tensor differ"
            diagnostics.error("quantization/zero-point", message, place)
            continue
        dtype = DType(f"{'' if signed else 'u'}int{bits}")
        known: Scale = tuple(map(float, scales)) if scale is scales else float(scales[0])
        types[entry.tensor] = DatumType(dtype, False, known, int(zero_points[0] or 0))
    return types


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
    scale = broadcast_scale(make, x.scale, x.type.rank, 0)
    if x.type.dtype is DType.INT32 and not x.zero_point:
        return make("mul", make.cast(x.codes, DType.FLOAT32), scale)
    return make("dequantize", x.codes, scale, known_zero_point(x.zero_point, x.type.dtype))


def from_codes(make: OpBuilder, codes: Operand, datum: DatumType) -> QuantizedTensor:
    """The quantized tensor of `codes`, which come from a tensor file.

    Raises OperatorError unless a tuple of scales has one for each index of the first dimension.
    """
    assert datum.scale is not None
    if isinstance(datum.scale, tuple) and codes.type.dims[:1] != (len(datum.scale),):
        message = f"{len(datum.scale)} scales for a tensor of shape {list(codes.type.dims)}"
        raise OperatorError("quantization/scale", message)
    return QuantizedTensor(make.cast(codes, datum.dtype), datum.scale, datum.zero_point)


def broadcast_scale(make: OpBuilder, scale: Scale, rank: int, axis: int) -> Operand:
    """A scale as an operand of tensors of `rank`; scales of an axis get a shape [1, .., n, ..]."""
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
