"""Codes of real numbers: rounded to nearest, ties to even, and saturated."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType
from nnefc.ops.extended.quantized import code_limits


def to_codes(make: OpBuilder, scaled: Operand, zero_point: Operand) -> Operand:
    """Codes of reals in units of the scale, of the type of `zero_point`."""
    return make("quantize", scaled, 1.0, zero_point)


def known_zero_point(zero_point: int, dtype: DType) -> KnownTensor:
    """A zero point of codes of type `dtype`; raises OperatorError if it is no such code."""
    if not dtype.is_integer:
        raise OperatorError("type/operand", f"codes are integers, not {dtype}")
    low, high = code_limits(dtype)
    if not low <= zero_point <= high:
        message = f"the zero point {zero_point} is no {dtype}, which has {low} to {high}"
        raise OperatorError("quantization/zero-point", message)
    return KnownTensor(np.array(zero_point, dtype.numpy), dtype)
