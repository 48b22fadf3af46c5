"""Items that few operations compute from known ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.ir import Value
from nnefc.ops.core.arrays import Array, widen
from nnefc.ops.tools.reference import apply
from nnefc.ops.tools.table import operations
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.symbolic.integers import is_symbolic

MOST_ITEMS: Final = 1 << 16
"""Most items of an operand that is computed: parameters have few."""
MOST_OPERATIONS: Final = 16
"""Longest path of operations."""


def computed_items(
    value: Value, known: KnownValues, operations_left: int = MOST_OPERATIONS
) -> Array | None:
    """The items of a value that does not depend on inputs, in its shape and type; else None.

    Each operation is computed in float64 or int64 and rounded to its type.
    """
    items = known.items(value)
    if items is not None:
        return np.broadcast_to(items, value.type.dims).astype(value.type.dtype.numpy)
    op = value.op
    if op is None or not operations_left or not op.inputs or op.bodies:
        return None
    spec = operations().get(op.name)
    if spec is None or not spec.pure or spec.reference is None:
        return None
    every = (*op.inputs, value)
    if any(
        v.type.shape is None or is_symbolic(v.type.dims) or v.type.volume > MOST_ITEMS
        for v in every
    ):
        return None
    operands: list[Array] = []
    for operand in op.inputs:
        items = computed_items(operand, known, operations_left - 1)
        if items is None:
            return None
        operands.append(widen(items, operand.type.dtype))
    with np.errstate(all="ignore"):
        result = apply(op, operands)[value.index]
    return np.broadcast_to(result, value.type.dims).astype(value.type.dtype.numpy)
