"""Codes of real numbers: rounded to nearest, ties to even, and saturated."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ir import DType


def to_codes(make: OpBuilder, scaled: Operand, zero_point: Any, dtype: DType) -> Operand:
    """Codes of reals in units of the scale.

    `zero_point`: a number, or an operand of the type of `scaled`.
    """
    low, high = code_range(dtype)
    whole = make("round_even", scaled)
    codes = make("clamp", make("add", whole, zero_point), float(low), float(high))
    return make.cast(codes, dtype)


def code_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest code of an integer type; raises OperatorError for others."""
    if not dtype.is_integer:
        raise OperatorError("type/operand", f"codes are integers, not {dtype}")
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)
