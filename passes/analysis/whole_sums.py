"""Which convolutions sum whole numbers, whose results are converted to integers as they are."""

from __future__ import annotations

from nnefc.ir import Expression, Op, Value
from nnefc.ir.expression import expression_of
from nnefc.passes.op_queries import is_elementwise_or_fused, is_view


def sums_whole_numbers(op: Op) -> bool:
    """Whether a convolution with an expression feeds a conversion to integers with its sums.

    Such sums are exact in the type of the convolution; an algorithm with other rounding errors than
    direct convolution would change them.
    """
    expression: Expression = op.attributes["expression"]
    if expression.results == (0,):
        return any(_converts(user, value) for value, user in _uses(op.output))
    return _casts(expression, 0)


def _uses(value: Value) -> list[tuple[Value, Op]]:
    """The operations that use a value, or views of it, and which of these they use."""
    uses: list[tuple[Value, Op]] = []
    for user in value.users:
        passes_on = is_view(user) or user.name == "layout"
        uses += _uses(user.output) if passes_on else [(value, user)]
    return uses


def _converts(op: Op, value: Value) -> bool:
    """Whether an operation converts the items of `value` to integers."""
    if not is_elementwise_or_fused(op):
        return False
    expression = expression_of(op)
    return any(_casts(expression, i) for i, operand in enumerate(op.inputs) if operand is value)


def _casts(expression: Expression, index: int) -> bool:
    """Whether a step converts input `index` to an integer type."""
    return any(
        step.op == "cast" and step.operands == (index,) and step.dtype.is_integer
        for step in expression.steps
    )
