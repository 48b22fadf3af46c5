"""Quantized tensors: codes with a scale and a zero point, as graph.quant names them."""

from __future__ import annotations

from typing import Any

from nnefc.errors import Diagnostics
from nnefc.formats.container import Container
from nnefc.frontends.tract.maker import Maker
from nnefc.frontends.tract.values import DatumType, Operand, Quantized, operand
from nnefc.ir import DType
from nnefc.limits import Limits
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
        if scale is None or not scale > 0:
            message = f"the scale must be greater than 0, not {scale}"
            diagnostics.error("quantization/scale", message, place)
            continue
        dtype = DType(f"{'' if signed else 'u'}int{bits}")
        found[entry.tensor] = DatumType(dtype, False, float(scale), int(zero_point or 0))
    return found


def _literal(expression: ast.Expression) -> Any:
    match expression:
        case ast.Literal_():
            return expression.value
        case ast.Unary(operator="-", operand=ast.Literal_(value=int() | float() as value)):
            return -value
        case _:
            return None


def encoded(make: Maker, x: Operand, datum: DatumType) -> Quantized:
    """Codes of real items: round to nearest, ties to even, kept in range."""
    assert datum.scale is not None
    scaled = make("mul", make.cast(x, DType.FLOAT32), 1.0 / datum.scale)
    codes = rounded(make, scaled, datum.zero_point, datum.dtype)
    return Quantized(codes, datum.scale, datum.zero_point)


def rounded(make: Maker, scaled: Operand, zero_point: int, dtype: DType) -> Operand:
    """Codes of items in units of the scale: round to nearest, ties to even, kept in range."""
    low, high = bounds(dtype)
    whole = make("round_even", scaled)
    codes = make("clamp", make("add", whole, float(zero_point)), float(low), float(high))
    return make.cast(codes, dtype)


def plain(make: Maker, x: Any) -> Operand:
    """A tensor of real items: of codes, what they stand for."""
    return decoded(make, x) if isinstance(x, Quantized) else operand(x)


def decoded(make: Maker, x: Quantized) -> Operand:
    """Real items of codes."""
    real = make.cast(x.codes, DType.FLOAT32)
    if x.zero_point:
        real = make("sub", real, float(x.zero_point))
    return make("mul", real, x.scale)


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the largest item of an integer type."""
    import numpy as np

    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)
