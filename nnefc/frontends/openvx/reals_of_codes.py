"""Items of U8, S8 and Q7.8 as codes of reals, for graphs that compute with reals."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.tensors import Q78, S8, U8, Format
from nnefc.frontends.openvx.values import number, zero
from nnefc.ir import DType

CODED: Final = (U8, S8, Q78)
"""Formats whose items are codes: with the scale 1, those of Q7.8 with 1/256."""


def dequantized(make: OpBuilder, items: Operand, format: Format) -> Operand:
    """The reals of items of a format in float32; items of other formats as they are."""
    if format not in CODED:
        return items
    return make("dequantize", items, *_parameters(format))


def quantized(make: OpBuilder, reals: Operand, format: Format) -> Operand:
    """The items of a format that reals are rounded to, halves up as in NNEF."""
    if format not in CODED:
        return reals
    op = make.value(reals).op
    if op is not None and op.name == "dequantize":
        return op.inputs[0]
    return make("quantize", reals, *_parameters(format), rounding="up")


def rounded_to_codes(make: OpBuilder, reals: Operand, format: Format) -> Operand:
    """Reals that are rounded to items of a format; a reshape of them comes afterwards."""
    op = make.value(reals).op
    if op is not None and op.name == "reshape":
        inner = rounded_to_codes(make, op.inputs[0], format)
        return make.reshape(inner, reals.type.dims)
    return dequantized(make, quantized(make, reals, format), format)


def _parameters(format: Format) -> tuple[Operand, Operand]:
    """Scale and zero point."""
    return number(2.0**-format.position, DType.FLOAT32), zero(format)
