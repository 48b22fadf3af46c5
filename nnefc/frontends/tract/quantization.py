"""Quantized tensors: codes with a scale and a zero point, as graph.quant names them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.container import Container
from nnefc.frontends.common.op_builder import OpBuilder
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
    """The quantization file of a container, if there is one; raises NnefError."""
    data, name = container.quantization(), container.quantization_file
    if data is None or name is None:
        return None
    text = decode(data, name, limits=limits, diagnostics=diagnostics)
    return parse_quantization(text, name, limits=limits, diagnostics=diagnostics)


def quantized_types(
    file: ast.QuantizationFile | None, diagnostics: Diagnostics
) -> dict[str, DatumType]:
    """Item types by identifier."""
    found: dict[str, DatumType] = {}
    for entry in file.entries if file else ():
        place = file.source.place(entry.at) if file else None
        arguments = {a.name: a.value for a in entry.invocation.arguments}
        values = {name: _literal(value) for name, value in arguments.items() if name}
        bits = values.get("bits", 8)
        if bits not in (8, 32):
            message = f"quantization to {bits} bits is not known"
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
            diagnostics.error("quantization/zero_point", message, place)
            continue
        dtype = DType(f"{'' if signed else 'u'}int{bits}")
        known: Scale = tuple(map(float, scales)) if scale is scales else float(scales[0])
        found[entry.tensor] = DatumType(dtype, False, known, int(zero_points[0] or 0))
    return found


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _literal(expression: ast.Expression) -> Any:
    match expression:
        case ast.Literal_():
            return expression.value
        case ast.Unary(operator="-", operand=ast.Literal_(value=int() | float() as value)):
            return -value
        case ast.Array():
            return tuple(_literal(item) for item in expression.items)
        case _:
            return None


def encoded(make: OpBuilder, x: Operand, datum: DatumType) -> QuantizedTensor:
    """Codes of real items: round to nearest, ties to even, kept in range."""
    assert datum.scale is not None
    factor = along(make, _reciprocal(datum.scale), x.type.rank, 0)
    scaled = make("mul", make.cast(x, DType.FLOAT32), factor)
    codes = rounded(make, scaled, datum.zero_point, datum.dtype)
    return QuantizedTensor(codes, datum.scale, datum.zero_point)


def rounded(make: OpBuilder, scaled: Operand, zero_point: int, dtype: DType) -> Operand:
    """Codes of items in units of the scale: round to nearest, ties to even, kept in range."""
    low, high = bounds(dtype)
    whole = make("round_even", scaled)
    codes = make("clamp", make("add", whole, float(zero_point)), float(low), float(high))
    return make.cast(codes, dtype)


def plain(make: OpBuilder, x: Any) -> Operand:
    """A tensor of real items: of codes, what they stand for."""
    return decoded(make, x) if isinstance(x, QuantizedTensor) else operand(x)


def decoded(make: OpBuilder, x: QuantizedTensor) -> Operand:
    """Real items of codes."""
    real = make.cast(x.codes, DType.FLOAT32)
    if x.zero_point:
        real = make("sub", real, float(x.zero_point))
    return make("mul", real, along(make, x.scale, real.type.rank, 0))


def of_codes(make: OpBuilder, codes: Operand, datum: DatumType) -> QuantizedTensor:
    """Items that are codes already, as those of a tensor file are."""
    assert datum.scale is not None
    if isinstance(datum.scale, tuple) and codes.type.dims[:1] != (len(datum.scale),):
        message = f"{len(datum.scale)} scales for a tensor of shape {list(codes.type.dims)}"
        raise OperatorError("quantization/scale", message)
    return QuantizedTensor(make.cast(codes, datum.dtype), datum.scale, datum.zero_point)


def along(make: OpBuilder, scale: Scale, rank: int, axis: int) -> Any:
    """A scale as an operand: scales of an axis of a tensor."""
    if not isinstance(scale, tuple):
        return scale
    dims = [len(scale) if i == axis else 1 for i in range(rank)]
    return make.reshape(KnownTensor(np.array(scale, np.float32), DType.FLOAT32), dims)


def times(scale: Scale, factor: float) -> Scale:
    return tuple(s * factor for s in scale) if isinstance(scale, tuple) else scale * factor


def _reciprocal(scale: Scale) -> Scale:
    return tuple(1.0 / s for s in scale) if isinstance(scale, tuple) else 1.0 / scale


def products(
    make: OpBuilder, sums: Operand, a: QuantizedTensor, b: QuantizedTensor, axis: int
) -> Any:
    """Sums of products of codes, less their zero points, as what they stand for: codes of 32 bits,
    or reals if b has a scale for each index of an axis of the result.
    """
    assert not isinstance(a.scale, tuple)
    scale = times(b.scale, a.scale)
    if isinstance(scale, tuple):
        return make("mul", sums, along(make, scale, sums.type.rank, axis))
    return QuantizedTensor(make.cast(sums, DType.INT32), scale, 0)


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the largest item of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)
