"""A scalar expression: what a fused element-wise operation computes for each item.

It is straight-line: operand i < len(inputs) is an input, operand len(inputs) + j the result of
step j.  `nnefc.ops.internal.fused` says how operations apply their attribute `expression`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir.graph import Op
from nnefc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Step:
    """`op` is the name of an element-wise operation, or "literal" (then `value` is set).

    `dtype` is the type of the result.  A `cast` has the type it converts to.
    """

    op: str
    operands: tuple[int, ...]
    dtype: DType
    value: bool | int | float | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    inputs: tuple[DType, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    """Operands that are the outputs; usually one."""


def expression_of(op: Op) -> Expression:
    """What an element-wise operation, or several in one, compute."""
    if op.name == "fused":
        return op.attributes["expression"]
    types = tuple(v.type.dtype for v in op.inputs)
    step = Step(op.name, tuple(range(len(types))), op.output.type.dtype)
    return Expression(types, (step,), (len(types),))
