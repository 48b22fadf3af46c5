"""Comparisons, logical and bitwise operators, and the choice between two tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    StringTensor,
    operand,
)
from nnefc.frontends.onnx.broadcasting import aligned, binary, constant
from nnefc.frontends.onnx.operators.elementwise.arithmetic import named_operation, register_binary
from nnefc.frontends.onnx.registry import operator
from nnefc.ir import DType

_SINCE_1: Final = {
    "Greater": "gt", "Less": "lt", "And": "and", "Or": "or", "Xor": "xor",
}  # fmt: skip
_SINCE_7: Final = {
    "GreaterOrEqual": "ge", "LessOrEqual": "le",
    "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor",
}  # fmt: skip

for _name, _operation in _SINCE_1.items():
    register_binary(_name, named_operation(_operation))
register_binary("Equal", named_operation("eq"), until=18)
for _name, _operation in _SINCE_7.items():
    register_binary(_name, named_operation(_operation), before=False)


@operator("Equal", since=19)
def equal(make: OpBuilder, A: Any, B: Any) -> Any:
    """Whether items are equal; strings are known while the graph is built."""
    if isinstance(A, StringTensor) and isinstance(B, StringTensor):
        return KnownTensor(np.asarray(A.array == B.array, np.bool_), DType.BOOL)
    return binary(make, "eq", operand(A), operand(B))


@operator("Not")
def not_(make: OpBuilder, X: Operand) -> Any:
    return make("not", X)


@operator("BitwiseNot", since=18)
def bitwise_not(make: OpBuilder, X: Operand) -> Any:
    return make("bitnot", X)


@operator("BitShift", since=11)
def bit_shift(make: OpBuilder, X: Operand, Y: Operand, *, direction: str) -> Any:
    """X shifted by Y bits, or by all bits where Y is negative or greater than their number."""
    operation = {"LEFT": "shift_left", "RIGHT": "shift_right"}.get(direction)
    if operation is None:
        message = f"direction is 'LEFT' or 'RIGHT', not {direction!r}"
        raise OperatorError("onnx/arguments", message)
    dtype = X.type.dtype
    bits = 8 * dtype.itemsize
    if isinstance(Y, KnownTensor) and np.all((Y.array >= 0) & (Y.array < bits)):
        return binary(make, operation, X, Y)
    x, y = aligned(make, X, Y)
    fits = make("lt", y, constant(y, bits))
    if dtype.is_signed:
        fits = make("and", fits, make("ge", y, constant(y, 0)))
    shifted = make(operation, x, make("select", fits, y, constant(y, bits - 1)))
    if dtype.is_signed and direction == "RIGHT":
        return shifted
    return make("select", fits, shifted, constant(x, 0))


@operator("IsNaN", since=9)
def is_nan(make: OpBuilder, X: Operand) -> Any:
    return make("is_nan", X)


@operator("IsInf", since=10)
def is_inf(
    make: OpBuilder, X: Operand, *, detect_negative: bool = True, detect_positive: bool = True
) -> Any:
    return make("is_inf", X, detect_positive=detect_positive, detect_negative=detect_negative)


@operator("Where", since=9)
def where(make: OpBuilder, condition: Operand, X: Operand, Y: Operand) -> Any:
    return make("select", *aligned(make, condition, X, Y))
