"""Simple epilogues: expressions that a convolution can apply to its sums in registers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnefc.ir import Expression, Step


@dataclass(frozen=True, slots=True)
class SimpleEpilogue:
    """clamp(sum + residual, low, high); NaN stays NaN."""

    residual: int | None = None
    """Index of the input of the expression that is added; None for none."""
    low: float = -math.inf
    high: float = math.inf


def simple_epilogue(expression: Expression) -> SimpleEpilogue | None:
    """`expression` over sums (input 0) as a simple epilogue; None if it has another form.

    The form is at most one addition of another input, then any relu, min, max and clamp with
    numbers.  The other input may be converted from a 16-bit float first, the result to one last.
    """
    if len(expression.results) != 1:
        return None
    epilogue = SimpleEpilogue()
    current = 0
    literals: dict[int, float] = {}
    widened: dict[int, int] = {}
    last = len(expression.inputs) + len(expression.steps) - 1
    for number, step in enumerate(expression.steps, len(expression.inputs)):
        if step.op == "literal":
            literals[number] = float(step.value or 0)
            continue
        if step.op == "cast" and _widens(expression, step):
            widened[number] = step.operands[0]
            continue
        if step.op == "cast" and step.dtype.is_half and (number, *step.operands) == (last, current):
            current = number
            continue
        step = replace(step, operands=tuple(widened.get(o, o) for o in step.operands))
        extended = _extend(epilogue, step, current, literals, len(expression.inputs))
        if extended is None:
            return None
        epilogue, current = extended, number
    if expression.results != (current,) or (len(expression.inputs) > 1) != (
        epilogue.residual is not None
    ):
        return None
    return epilogue


def _widens(expression: Expression, step: Step) -> bool:
    """Whether a conversion gives a further input the type of the sums."""
    (operand,) = step.operands
    is_input = 0 < operand < len(expression.inputs)
    return is_input and expression.inputs[operand].is_half and step.dtype is expression.inputs[0]


def _extend(
    before: SimpleEpilogue, step: Step, current: int, literals: dict[int, float], inputs: int
) -> SimpleEpilogue | None:
    """`before` followed by `step`, which must use the last result once; None if impossible."""
    others = [o for o in step.operands if o != current]
    if len(others) != len(step.operands) - 1:
        return None
    if step.op == "add" and others[0] < inputs:
        untouched = before == SimpleEpilogue()
        return replace(before, residual=others[0]) if untouched else None
    bounds = [literals.get(o, math.nan) for o in others]
    if any(math.isnan(b) for b in bounds):
        return None
    match step.op:
        case "relu":
            low, high = 0.0, math.inf
        case "max":
            low, high = bounds[0], math.inf
        case "min":
            low, high = -math.inf, bounds[0]
        case "clamp" if step.operands[0] == current:
            low, high = bounds
        case _:
            return None
    if not low <= high:
        return None
    # clamping twice: the later clamp also applies to the earlier bounds
    low, high = (min(max(b, low), high) for b in (before.low, before.high))
    return replace(before, low=low, high=high)
