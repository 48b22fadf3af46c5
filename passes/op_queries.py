"""Questions about operations and values that many passes ask, and the replacement of operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.ir import Graph, Location, Op, TensorType, Value
from nnefc.ops.tools.table import operations, traits_of

Number = bool | int | float

WITH_BODIES: Final = frozenset(name for name, spec in operations().items() if spec.cost_of_bodies)
"""Operations with bodies."""


def replace(graph: Graph, op: Op, values: Sequence[Value]) -> None:
    """Replace the outputs of `op` by `values` and erase `op`."""
    for old, new in zip(op.outputs, values, strict=True):
        graph.replace_value(old, new)
    graph.erase(op)


def producer(value: Value, *names: str) -> Op | None:
    """The operation that computes `value`, if its name is among `names`."""
    return value.op if value.op is not None and value.op.name in names else None


def only_user(graph: Graph, value: Value, *names: str) -> Op | None:
    """The operation that uses `value` once, if nothing else uses it; None otherwise.

    With `names`, the name of the operation must be among them.
    """
    if len(value.users) != 1 or graph.is_output(value):
        return None
    ((user, count),) = value.users.items()
    return user if count == 1 and (not names or user.name in names) else None


def is_constant(value: Value) -> bool:
    return producer(value, "constant") is not None


def splat(value: Value) -> Number | None:
    """The number that a constant repeats; None for other values.

    Only constants stored as one number count, not arrays of equal items.
    """
    if value.op is None or value.op.name != "constant":
        return None
    stored: Any = value.op.attributes["value"]
    if isinstance(stored, np.ndarray):
        stored = stored.reshape(-1)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return np.asarray(stored[0]).item() if len(stored) == 1 else None


def splat_op(type_: TensorType, number: Number, location: Location | None) -> Op:
    """A constant that repeats `number`; it is not inserted into a graph."""
    attributes = {"shape": type_.dims, "value": (number,)}
    return Op("constant", (), attributes, [type_], location=location)


def is_elementwise(op: Op) -> bool:
    """Whether `op` may become a step of an expression."""
    spec = operations().get(op.name)
    return spec is not None and spec.elementwise and spec.expand is None


def is_elementwise_or_fused(op: Op) -> bool:
    """Whether `op` is element-wise, or several element-wise operations that were fused."""
    return op.name == "fused" or is_elementwise(op)


def is_view(op: Op) -> bool:
    """Whether `op` only changes the shape of its operand: items and their order stay."""
    return traits_of(op).view


def exchanges_rows(op: Op) -> bool:
    """Whether an operation transposes matrices, and leaves all other dimensions."""
    if op.name != "transpose":
        return False
    axes: Sequence[int] = op.attributes["axes"]
    rank = op.inputs[0].type.rank
    return rank >= 2 and [*axes, *range(len(axes), rank)] == [*range(rank - 2), rank - 1, rank - 2]


def is_pure(op: Op) -> bool:
    """Whether the only effect of `op` is to compute its outputs; False for unknown operations."""
    spec = operations().get(op.name)
    return spec is not None and spec.pure


def may_fail(op: Op) -> bool:
    """Whether `op` may read at indices that a run computes, which may be out of range."""
    if is_elementwise_or_fused(op):
        return False
    return any(v.type.dtype.is_integer and not is_constant(v) for v in op.inputs)


def is_one(number: Number | None) -> bool:
    return number is not None and number == 1


def is_zero(number: Number | None, sign: float) -> bool:
    """Whether `number` is zero with the sign of `sign`; the zero of integers has both signs."""
    if number is None or number != 0:
        return False
    return isinstance(number, int) or math.copysign(1.0, number) == sign


def is_power_of_two(number: Number) -> bool:
    """Whether `number` is a power of two whose reciprocal is exact in every float type."""
    if not isinstance(number, float) or not math.isfinite(number):
        return False
    mantissa, exponent = math.frexp(number)
    return abs(mantissa) == 0.5 and abs(exponent) < 100
