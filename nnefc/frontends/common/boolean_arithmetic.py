"""Arithmetic with truth values, which is PyTorch's: tract itself has none.

A sum is whether any is true, a product and a minimum whether all are; false comes before true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.ir import DType

_SAME: Final = {
    "add": "or", "max": "or", "mul": "and", "min": "and", "ne": "xor", "sub": "xor",
}  # fmt: skip
"""Operations of two that have another name for truth values."""
UNCHANGED: Final = {"sqr", "sign", "relu", "abs"}
"""Operations of one that leave truth values as they are."""
_REDUCTIONS: Final = {"max_reduce": "any_reduce", "min_reduce": "all_reduce"}


def are_truths(*operands: Operand) -> bool:
    return all(x.type.dtype is DType.BOOL for x in operands)


def binary(make: OpBuilder, name: str, x: Operand, y: Operand) -> Any:
    """An operation of two tensors of one rank; None if it has no meaning for truth values."""
    if name == "sub" and x is y:  # a running sum begins so, and its items are integers
        return make.cast(make("xor", x, y), DType.INT64)
    match name:
        case "eq":
            return make("not", make("xor", x, y))
        case "lt" | "ge":
            less = make("and", make("not", x), y)
            return less if name == "lt" else make("not", less)
        case "gt" | "le":
            greater = make("and", x, make("not", y))
            return greater if name == "gt" else make("not", greater)
        case _:
            return make(_SAME[name], x, y) if name in _SAME else None


def reduction(make: OpBuilder, name: str, x: Operand, axes: Sequence[int]) -> Any:
    """A reduction; of those that count, and of places, the operation for integers."""
    if name in _REDUCTIONS:
        return make(_REDUCTIONS[name], x, axes=axes)
    return make(name, make.cast(x, DType.INT64), axes=axes)
