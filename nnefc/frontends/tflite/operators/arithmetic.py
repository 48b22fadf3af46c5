"""Element-wise arithmetic, comparisons, logic and casts."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import aligned, as_type_of, binary
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.registry import ANY, NUMBERS, REALS, Node, operator
from nnefc.ir import DType

_INTEGERS: Final = ("INT32", "INT64")


@operator("ADD", options="AddOptions", types=NUMBERS)
def add(make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int) -> Any:
    return activated(make, binary(make, "add", x, y), fused_activation_function)


@operator("SUB", options="SubOptions", types=NUMBERS)
def sub(make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int) -> Any:
    return activated(make, binary(make, "sub", x, y), fused_activation_function)


@operator("MUL", options="MulOptions", types=NUMBERS)
def mul(make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int) -> Any:
    return activated(make, binary(make, "mul", x, y), fused_activation_function)


@operator("DIV", options="DivOptions", types=(*REALS, "INT32"))
def div(make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int) -> Any:
    return activated(make, binary(make, "div", x, y), fused_activation_function)


@operator("MAXIMUM", types=NUMBERS)
def maximum(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return binary(make, "max", x, y)


@operator("MINIMUM", types=NUMBERS)
def minimum(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return binary(make, "min", x, y)


@operator("POW", types=REALS)
def power(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return binary(make, "pow", x, y)


@operator("POW", types=("INT32",))
def power_of_integers(make: OpBuilder, x: Operand, y: Operand) -> Any:
    """In float64, without a fraction."""
    wide = (make.cast(each, DType.FLOAT64) for each in (x, y))
    return make.cast(binary(make, "pow", *wide), x.type.dtype)


@operator("SQUARED_DIFFERENCE", types=(*REALS, "INT32"))
def squared_difference(make: OpBuilder, x: Operand, y: Operand) -> Any:
    difference = binary(make, "sub", x, y)
    return make("mul", difference, difference)


@operator("FLOOR_DIV", types=REALS)
def floor_div(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return make("floor", binary(make, "div", x, y))


@operator("ADD_N", types=NUMBERS)
def add_n(make: OpBuilder, *inputs: Operand) -> Any:
    if not inputs:
        raise OperatorError("tflite/arguments", "it has no inputs")
    total: Any = inputs[0]
    for each in inputs[1:]:
        total = make("add", total, each)
    return total


# -- of one operand


def _unary(name: str, operation: str, types: tuple[str, ...] = REALS) -> None:
    """Register an operator that is one operation."""

    def function(make: OpBuilder, input: Operand) -> Any:
        return make(operation, input)

    operator(name, types=types)(function)


for _name, _operation in (
    *(("EXP", "exp"), ("LOG", "log"), ("SIN", "sin"), ("COS", "cos"), ("SQRT", "sqrt")),
    *(("RSQRT", "rsqrt"), ("FLOOR", "floor"), ("CEIL", "ceil"), ("ROUND", "round_even")),
):
    _unary(_name, _operation)
_unary("SIGN", "sign", (*REALS, "INT32", "FLOAT64"))
_unary("NEG", "neg", (*NUMBERS, "INT8"))
_unary("ABS", "abs", (*REALS, "INT32"))
_unary("LOGICAL_NOT", "not", ("BOOL",))


@operator("SQUARE", types=NUMBERS)
def square(make: OpBuilder, input: Operand) -> Any:
    return make("mul", input, input)


# -- comparisons and logic


def _comparison(name: str, operation: str, types: tuple[str, ...]) -> None:
    """Register a comparison, or an operator of logic."""

    def function(make: OpBuilder, x: Operand, y: Operand) -> Any:
        return binary(make, operation, x, y)

    operator(name, types=types)(function)


for _name, _operation in (
    *(("LESS", "lt"), ("LESS_EQUAL", "le"), ("GREATER", "gt"), ("GREATER_EQUAL", "ge")),
    *(("EQUAL", "eq"), ("NOT_EQUAL", "ne")),
):
    _comparison(_name, _operation, NUMBERS)
_comparison("NOT_EQUAL", "xor", ("BOOL",))
for _name, _operation in (("LOGICAL_AND", "and"), ("LOGICAL_OR", "or")):
    _comparison(_name, _operation, ("BOOL",))


@operator("EQUAL", types=("BOOL",))
def equal(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return make("not", binary(make, "xor", x, y))


@operator("SELECT", "SELECT_V2", types=ANY, typed_by=1)
def select(make: OpBuilder, condition: Operand, x: Operand, y: Operand) -> Any:
    """x where the condition holds, else y; of rank 1, it may select along the first dimension."""
    rank = x.type.rank
    extents, dims = condition.type.dims, x.type.dims
    if len(extents) == 1 < rank and extents == dims[:1] != dims[-1:] and dims == y.type.dims:
        condition = make.reshape(condition, (*extents, *(1,) * (rank - 1)))
    return make("select", *aligned(make, condition, x, y))


@operator("CAST", types=ANY)
def cast(make: OpBuilder, input: Operand, node: Node) -> Any:
    return as_type_of(make, input, node.output)
