"""What a convolution does to its sums before it stores them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnefc.ir import Expression, Step


@dataclass(frozen=True, slots=True)
class SimpleEpilogue:
    """clamp(sum + residual, low, high); NaN stays NaN."""

    residual: int | None = None
    """Operand of the expression that is added."""
    low: float = -math.inf
    high: float = math.inf


def simple_epilogue(expression: Expression) -> SimpleEpilogue | None:
    """`expression`, of which input 0 is the sum, as a simple epilogue; None if it is none.

    At most one addition of another input, then any relu, min, max and clamp with numbers.
    """
    if len(expression.results) != 1:
        return None
    found = SimpleEpilogue()
    current = 0
    literals: dict[int, float] = {}
    for number, step in enumerate(expression.steps, len(expression.inputs)):
        if step.op == "literal":
            literals[number] = float(step.value or 0)
            continue
        extended = _extend(found, step, current, literals, len(expression.inputs))
        if extended is None:
            return None
        found, current = extended, number
    if expression.results != (current,) or (len(expression.inputs) > 1) != (
        found.residual is not None
    ):
        return None
    return found


def _extend(
    before: SimpleEpilogue, step: Step, current: int, literals: dict[int, float], inputs: int
) -> SimpleEpilogue | None:
    """`before`, then `step`, which must use what was computed last."""
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
    # of a clamp after a clamp, both bounds pass through the later one
    low, high = (min(max(b, low), high) for b in (before.low, before.high))
    return replace(before, low=low, high=high)
