"""Scalar expressions, which fused element-wise operations compute for each item.

An expression is straight-line code: operand i < len(inputs) is an input, operand len(inputs) + j
the result of step j.  `nnefc.ops.internal.fused` defines how operations apply their attribute
`expression`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir.graph import Op
from nnefc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Step:
    """An element-wise operation `op`, or "literal" with a `value`.

    `dtype` is the type of the result; for `cast` the target type.
    """

    op: str
    operands: tuple[int, ...]
    dtype: DType
    value: bool | int | float | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    """Straight-line code on scalars."""

    inputs: tuple[DType, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    """Operands that are the outputs; usually one."""


def expression_of(op: Op) -> Expression:
    """The expression of an element-wise operation or of a fused one."""
    if op.name == "fused":
        return op.attributes["expression"]
    types = tuple(v.type.dtype for v in op.inputs)
    step = Step(op.name, tuple(range(len(types))), op.output.type.dtype)
    return Expression(types, (step,), (len(types),))
