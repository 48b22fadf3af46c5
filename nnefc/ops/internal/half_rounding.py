"""Steps of expressions that round float32 to halves, as precisions below float32 do."""

from __future__ import annotations

from typing import Final

from nnefc.ir import DType, Expression, Location, Op, Step, Value
from nnefc.ir.expression import expression_of

LARGEST: Final = 65504.0
"""The largest number of float16."""


def rounding_op(value: Value, dtype: DType, location: Location | None) -> Op:
    """An operation that rounds a float32 to halves."""
    types = [value.type.with_dtype(dtype)]
    if dtype is not DType.FLOAT16:
        return Op("cast", [value], {}, types, (), location)
    attributes = {"expression": _rounded(dtype)}
    return Op("fused", [value], attributes, types, (), location)


def is_rounding(op: Op) -> bool:
    """Whether `op` only rounds a float32 to halves, as `rounding_op` does."""
    if op.name not in ("cast", "fused") or len(op.outputs) != 1 or not op.output.type.dtype.is_half:
        return False
    return expression_of(op) == _rounded(op.output.type.dtype)


def _rounded(dtype: DType) -> Expression:
    steps = rounding(0, 1, dtype)
    return Expression((DType.FLOAT32,), steps, (len(steps),))


def rounding(operand: int, count: int, dtype: DType, factor: float = 1.0) -> tuple[Step, ...]:
    """Steps behind `count` values that round `factor` times an operand; the last is the result.

    Numbers beyond the range of float16 become its largest ones, and NaN stays NaN.
    """
    steps: list[Step] = []

    def add(
        op: str, *operands: int, dtype: DType = DType.FLOAT32, value: float | None = None
    ) -> int:
        steps.append(Step(op, operands, dtype, value))
        return count + len(steps) - 1

    if factor != 1:
        operand = add("mul", operand, add("literal", value=factor))
    if dtype is DType.FLOAT16:
        operand = add("min", add("literal", value=LARGEST), operand)
        operand = add("max", add("literal", value=-LARGEST), operand)
    add("cast", operand, dtype=dtype)
    return tuple(steps)
