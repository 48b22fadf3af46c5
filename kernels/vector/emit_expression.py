"""Emits element-wise expressions by the operations of `nnefc.kernels.vector.instructions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nnefc.kernels.vector.conversion import truncated
from nnefc.kernels.vector.expression_argument import Expression, Number
from nnefc.kernels.vector.instructions import INSTRUCTIONS, Call
from nnefc.kernels.vector.item_types import BITS, HALVES, INTEGERS, limits
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, constant

Quick = Callable[[str, Lanes, str], Lanes | None]
"""`quick(operation, first operand, type of the result)`: the result, or None for other operations.

Results may differ by some ulp of float32 from those of `INSTRUCTIONS`."""


def emit(
    v: LaneBuilder,
    expression: Expression,
    inputs: Sequence[Lanes],
    libm: Any = None,
    quick: Quick | None = None,
) -> list[Lanes]:
    """Emit all steps of an expression for vectors of its inputs; returns its results.

    `libm`: address of the table of the C library, an LLVM word; required if the expression
    `calls_library`.  `quick` is asked first: for conversions, and if all results are halves, for
    functions.
    """
    rounds = all(expression.types[result] in HALVES for result in expression.results)
    values = list(inputs)
    literals: dict[int, Number] = {}
    whole = clamped_casts(expression)
    for op, operands, dtype, number in expression.steps:
        if op == "literal":
            assert number is not None
            literals[len(values)] = number
            values.append(constant(v, dtype, number))
            continue
        if len(values) in whole:
            values.append(truncated(values[operands[0]], dtype))
            continue
        asked = quick if rounds or op == "cast" else None
        found = asked(op, values[operands[0]], dtype) if asked else None
        if found is not None:
            values.append(found)
            continue
        known = [literals.get(operand) for operand in operands]
        call = Call([values[operand] for operand in operands], known, dtype, libm)
        values.append(INSTRUCTIONS[op].emit(call))
    return [values[result] for result in expression.results]


def clamped_casts(expression: Expression) -> set[int]:
    """The conversions of floats to integers of 8 or 16 bits whose operand is within their range.

    The operand is a minimum and a maximum with numbers, in any order.
    """
    ranges: dict[int, tuple[float, float]] = {}
    found: set[int] = set()
    steps = list(enumerate(expression.steps, len(expression.inputs)))
    literals = {number: value for number, (op, _, _, value) in steps if op == "literal"}
    for number, (op, operands, dtype, _) in steps:
        low, high = ranges.get(operands[0] if operands else -1, (-math.inf, math.inf))
        if op == "cast" and BITS[dtype] in (8, 16) and dtype in INTEGERS:
            least, most = limits(dtype)
            if least <= low <= high <= most and expression.types[operands[0]] == "float32":
                found.add(number)
        elif op in ("min", "max"):
            for limit, other in zip(operands, operands[::-1], strict=True):
                bound = literals.get(limit)
                if bound is not None:
                    low, high = ranges.get(other, (-math.inf, math.inf))
                    function = min if op == "min" else max
                    ranges[number] = (function(low, bound), function(high, bound))
    return found
