"""Arithmetic with booleans as in PyTorch; tract itself has none.

A sum is true if any item is true, a product and a minimum if all are; false is less than true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.ir import DType

_SAME: Final = {
    "add": "or", "max": "or", "mul": "and", "min": "and", "ne": "xor", "sub": "xor",
    "bitand": "and", "bitor": "or", "bitxor": "xor",
}  # fmt: skip
"""Binary operations, and the logical operation that computes the same with booleans."""
UNCHANGED: Final = {"sqr", "sign", "relu", "abs"}
"""Unary operations that do not change booleans."""
_REDUCTIONS: Final = {"max_reduce": "any_reduce", "min_reduce": "all_reduce"}


def are_booleans(*operands: Operand) -> bool:
    return all(x.type.dtype is DType.BOOL for x in operands)


def binary(make: OpBuilder, name: str, x: Operand, y: Operand) -> Any:
    """A binary operation on tensors of equal rank; None if it has no meaning for booleans."""
    if name == "sub" and x is y:  # the start of a running sum, whose items are integers
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
    """A reduction; reductions that count or return indices become those of integers."""
    if name in _REDUCTIONS:
        return make(_REDUCTIONS[name], x, axes=axes)
    return make(name, make.cast(x, DType.INT64), axes=axes)
