"""Emits element-wise expressions by the operations of `nnefc.kernels.vector.instructions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.kernels.vector.expression_argument import Expression, Number
from nnefc.kernels.vector.instructions import INSTRUCTIONS, Call
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, constant


def emit(
    v: LaneBuilder, expression: Expression, inputs: Sequence[Lanes], libm: Any = None
) -> list[Lanes]:
    """Emit all steps of an expression for vectors of its inputs; returns its results.

    `libm`: address of the table of the C library, an LLVM word; required if the expression
    `calls_library`.
    """
    values = list(inputs)
    literals: dict[int, Number] = {}
    for op, operands, dtype, number in expression.steps:
        if op == "literal":
            assert number is not None
            literals[len(values)] = number
            values.append(constant(v, dtype, number))
            continue
        known = [literals.get(operand) for operand in operands]
        call = Call([values[operand] for operand in operands], known, dtype, libm)
        values.append(INSTRUCTIONS[op].emit(call))
    return [values[result] for result in expression.results]
