"""The registry of `canonicalise`, and its rules for arithmetic and logic.

A rule replaces an operation by one with bit-identical results.  All NaNs count as equal.  Zeros
have signs: x + 0.0 is not x for x = -0.0, but x - 0.0 is x.  Forms that round less often, or that
compute the same root or power, also count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nnefc.ir import Op, Value
from nnefc.ir.graph import Attribute
from nnefc.ops.core.traits import Sign
from nnefc.ops.tools.table import traits_of
from nnefc.passes.op_queries import Number, is_one, is_power_of_two, is_zero, producer, splat


@dataclass(frozen=True)
class NewOp:
    """An operation that replaces another one."""

    name: str
    inputs: Sequence[Value | float | NewOp]
    """Numbers become constants of the type of the result; operations are inserted before it."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


Result = Sequence[Value] | NewOp | None
"""Existing values that replace the outputs, one new operation, or None for no change."""

Rule = Callable[[Op], Result]

RULES: dict[str, list[Rule]] = {}
"""Rules by name of the operation; the first that applies is used."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """A decorator that registers a rule for the operations `names`."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(function)
        return function

    return register


def same_type(op: Op, value: Value) -> Result:
    """`value` if it has the type of the output of `op`, which broadcasting may have enlarged."""
    return [value] if value.type == op.output.type else None


# -- copies


@rule("copy", "cast", "bitcast")
def _copy(op: Op) -> Result:
    return same_type(op, op.inputs[0])


@rule("copy_n")
def _copy_n(op: Op) -> Result:
    return [op.inputs[0]] * len(op.outputs)


# -- arithmetic and logic


@rule("add")
def _add(op: Op) -> Result:
    x, y = op.inputs
    if is_zero(splat(y), -1.0):
        return same_type(op, x)
    return same_type(op, y) if is_zero(splat(x), -1.0) else None


@rule("sub")
def _sub(op: Op) -> Result:
    x, y = op.inputs
    return same_type(op, x) if is_zero(splat(y), 1.0) else None


@rule("mul")
def _mul(op: Op) -> Result:
    x, y = op.inputs
    if x is y:
        return NewOp("sqr", [x])
    for factor, other in ((x, y), (y, x)):
        number = splat(factor)
        if is_one(number):
            return same_type(op, other)
        if number is None or other.type != op.output.type:
            continue
        if number == -1:
            return NewOp("neg", [other])
        if is_power_of_two(number) and (mean := _mean(other, 1 / number)):
            return mean
    return None


@rule("div")
def _div(op: Op) -> Result:
    x, y = op.inputs
    number = splat(y)
    if number is None or x.type != op.output.type:
        return None
    if is_one(number):
        return [x]
    if mean := _mean(x, number):
        return mean
    return NewOp("mul", [x, 1 / number]) if is_power_of_two(number) else None


def _mean(x: Value, count: Number) -> Result:
    """The mean that replaces the sum `x` divided by the number of its items."""
    inner = producer(x, "sum_reduce")
    # sums of integers wrap around before the division
    if inner is None or inner.attributes["normalize"] or x.type.dtype.is_integer:
        return None
    if count * x.type.volume != inner.inputs[0].type.volume:
        return None
    return NewOp("sum_reduce", inner.inputs, {**inner.attributes, "normalize": True})


@rule("pow")
def _pow(op: Op) -> Result:
    x, y = op.inputs
    if x.type != op.output.type:
        return None
    match splat(y):
        case 1.0:
            return [x]
        case 2.0:
            return NewOp("sqr", [x])
        case -1.0 if x.type.dtype.is_float:
            return NewOp("rcp", [x])
        # roots differ from powers for negative numbers and -0.0
        case 0.5 if _is_never_negative(x):
            return NewOp("sqrt", [x])
        case -0.5 if _is_never_negative(x):
            return NewOp("rsqrt", [x])
        case _:
            return None


def _is_never_negative(value: Value, depth: int = 8) -> bool:
    """Whether no item is negative or -0.0, judged by at most `depth` levels of producers."""
    number = splat(value)
    if number is not None:
        return number > 0 or is_zero(number, 1.0)
    op = value.op
    if op is None or depth == 0:
        return False
    sign = traits_of(op).sign
    if sign is Sign.NONNEGATIVE:
        return True
    if op.name == "max" and any((splat(v) or 0) > 0 for v in op.inputs):
        return True
    return sign is Sign.KEPT and all(_is_never_negative(v, depth - 1) for v in op.inputs)


@rule("rcp")
def _rcp(op: Op) -> Result:
    root = producer(op.inputs[0], "sqrt")
    return NewOp("rsqrt", root.inputs) if root is not None else None


@rule("neg", "not")
def _involution(op: Op) -> Result:
    inner = producer(op.inputs[0], op.name)
    return [inner.inputs[0]] if inner is not None else None


@rule("abs", "relu", "floor", "ceil", "sign")
def _idempotent(op: Op) -> Result:
    if producer(op.inputs[0], op.name) is not None:
        return [op.inputs[0]]
    negated = producer(op.inputs[0], "neg")
    signed = op.output.type.dtype.is_signed
    absolute = negated is not None and op.name == "abs" and signed
    return NewOp("abs", negated.inputs) if negated is not None and absolute else None


@rule("min", "max")
def _of_itself(op: Op) -> Result:
    x, y = op.inputs
    return [x] if x is y else None


@rule("and", "or")
def _logic(op: Op) -> Result:
    x, y = op.inputs
    neutral = op.name == "and"
    if x is y or splat(y) is neutral:
        return same_type(op, x)
    return same_type(op, y) if splat(x) is neutral else None


@rule("select")
def _select(op: Op) -> Result:
    condition, yes, no = op.inputs
    if yes is no:
        return same_type(op, yes)
    known = splat(condition)
    return None if known is None else same_type(op, yes if known else no)
