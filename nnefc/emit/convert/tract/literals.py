"""Constants that are written where they are used."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Op, Value
from nnefc.passes.op_queries import is_constant
from nnefc.symbolic.integers import is_symbolic

PROMOTING: Final = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "pow", "min", "max", "lt", "gt", "le", "ge", "eq", "ne"), 0
    ),
    "clamp": 0,
    "remainder": 0,
    "select": 1,
}
"""Operations whose operands, from an index on, get a common item type."""


MAX_EXACT: Final = 1 << 24
"""Literals of tract are float32, which has all integers up to here."""


def number_of(value: Value) -> Any:
    """The number that a constant repeats, which may be symbolic."""
    assert value.op is not None
    items = value.op.attributes["value"]
    item = items.reshape(-1)[0] if isinstance(items, np.ndarray) else items[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return item.item() if isinstance(item, np.generic) else item  # pyright: ignore[reportUnknownVariableType]


def is_written_in_place(op: Op, index: int) -> bool:
    """Whether an operand can be a literal.

    It is a finite number, and gets its type from a computed operand of at least its rank.  Literals
    of tract have 32 bits, so a float64 is none.
    """
    value = op.inputs[index]
    first = PROMOTING.get(op.name)
    if first is None or index < first or not _is_number(value):
        return False
    others = [
        x
        for i, x in enumerate(op.inputs)
        if i >= first and i != index and x.op is not value.op and not is_constant(x)
    ]
    return any(x.type.dtype is value.type.dtype and x.type.rank >= value.type.rank for x in others)


def _is_number(value: Value) -> bool:
    if not is_constant(value) or value.type.dtype is DType.FLOAT64:
        return False
    assert value.op is not None
    if np.size(value.op.attributes["value"]) != 1:
        return False
    return is_exact(value)


def is_exact(value: Value) -> bool:
    """Whether the number of a constant is finite, and an integer fits in a literal's float32."""
    number = number_of(value)
    if is_symbolic([number]):
        return True
    if value.type.dtype.is_integer:
        return abs(int(number)) <= MAX_EXACT
    return bool(np.isfinite(float(number)))
