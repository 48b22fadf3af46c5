"""Sums, products, powers and remainders, of two operands or of many."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import (
    aligned,
    aligned_at,
    binary,
    constant,
)
from nnefc.frontends.onnx.registry import MICROSOFT, NEWEST, operator
from nnefc.ir import DType

Binary = Callable[[OpBuilder, Operand, Operand], Any]


def register_binary(
    name: str, compute: Binary, *, before: bool = True, until: int = NEWEST
) -> None:
    """Register an operator of two operands; `before`: also for versions before 7."""

    def function(make: OpBuilder, A: Operand, B: Operand) -> Any:
        return compute(make, A, B)

    def function_1(
        make: OpBuilder, A: Operand, B: Operand, *, axis: int | None = None, broadcast: bool = False
    ) -> Any:
        return compute(make, A, aligned_at(make, A, B, axis) if broadcast else B)

    function.__name__, function_1.__name__ = name, f"{name}_1"
    operator(name, since=7, until=until)(function)
    if before:
        operator(name, until=6)(function_1)


def named_operation(operation: str) -> Binary:
    """The function that builds an operation of two operands."""
    return lambda make, x, y: binary(make, operation, x, y)


for _name, _operation in (("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div")):
    register_binary(_name, named_operation(_operation))


@operator("Mod", since=10)
def mod(make: OpBuilder, A: Operand, B: Operand, *, fmod: bool = False) -> Any:
    """The remainder, with the sign of `A` if `fmod`, otherwise with that of `B`."""
    x, y = aligned(make, A, B)
    rest = make("remainder", x, y)
    if fmod or not x.type.dtype.is_signed:
        return rest
    zero = constant(x, 0)
    differ = make("xor", make("lt", rest, zero), make("lt", y, zero))
    wrong = make("and", make("ne", rest, zero), differ)
    return make("select", wrong, make("add", rest, y), rest)


# -- powers

_ROOTS: Final = {0.5: "sqrt", -0.5: "rsqrt"}
_MOST_EXACT: Final = 1 << 11
"""Whole numbers up to this one are exact in all float types but bfloat16."""


def power(make: OpBuilder, x: Operand, y: Operand) -> Any:
    """x ^ y, with the item type of x."""
    if isinstance(y, KnownTensor) and y.array.size == 1 and not y.is_symbolic:
        exponent = float(y.array.reshape(()))
        result = _constant_power(make, x, exponent)
        if result is not None:
            return make.reshape(result, aligned(make, result, y)[0].type.dims)
    own, other = x.type.dtype, y.type.dtype
    common = _common_type(own, y)
    result = make("pow", *aligned(make, make.cast(x, common), make.cast(y, common)))
    return make.cast(result, own) if own is not common or own is not other else result


register_binary("Pow", power)


def _constant_power(make: OpBuilder, x: Operand, exponent: float) -> Any:
    """A power that a cheaper operation computes; None for others."""
    if exponent == 1:
        return x
    if exponent == 2:
        return make("sqr", x)
    if exponent == 3:
        return make("mul", make("sqr", x), x)
    if exponent in _ROOTS and x.type.dtype.is_float:
        return make(_ROOTS[exponent], x)
    return None


def _common_type(own: DType, y: Operand) -> DType:
    """The item type in which a power is computed."""
    other = y.type.dtype
    if own is other:
        return own
    if own.is_float and isinstance(y, KnownTensor) and not y.is_symbolic:
        wide = y.array.astype(np.float64)
        exact = (wide == np.trunc(wide)) & (np.abs(wide) <= _MOST_EXACT)
        if exact.all() and own is not DType.BFLOAT16:
            return own
    if own.is_integer and other.is_integer:
        return DType.INT64
    if own.is_float and other.is_float and DType.FLOAT64 not in (own, other):
        return DType.FLOAT32
    return DType.FLOAT64


# -- many operands


def _many(operation: str) -> Callable[..., Any]:
    def function(make: OpBuilder, *data: Operand) -> Any:
        return fold(make, operation, data)

    return function


def fold(make: OpBuilder, operation: str, data: tuple[Operand, ...]) -> Operand:
    """An operation applied from the first operand to the last; raises OperatorError for none."""
    if not data:
        raise OperatorError("onnx/arguments", "at least one input is needed")
    return reduce(lambda x, y: binary(make, operation, x, y), data)


for _name, _operation in (("Sum", "add"), ("Max", "max"), ("Min", "min")):
    operator(_name)(_many(_operation))


@operator("Mean")
def mean(make: OpBuilder, *data: Operand) -> Any:
    total = fold(make, "add", data)
    return make("div", total, constant(total, len(data))) if len(data) > 1 else total


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(make: OpBuilder, X: Operand, bias: Operand, skip: Operand) -> Any:
    """X [n, s, c] + bias [c] + skip [n, s, c]."""
    return fold(make, "add", (X, bias, skip))
