"""Rules of operations that compute the items of a batch independently of each other.

An operation is separable if it gives, for every slice of its operands along dimension 0, the same
slice of its results.  A slice is that of one item: `rows` of a tensor are how many extents along
dimension 0 belong to an item, as in a tensor [batch * rows, ...]; 0 says that the tensor is the
same for every item (weights, a mean over the batch).  Row-major or blocked, the slices are
contiguous in memory, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnefc.ir import Op, Value
from nnefc.ops.core.views import Place

Rows = Sequence[int]
"""Of every operand, or result; 0 for a tensor that all items share."""

BatchRule = Callable[[Op, Rows, int], int]
"""`rule(op, rows of the operands, batch)`: rows of the results, 0 if `op` is not separable."""


def first(op: Op, rows: Rows, batch: int) -> int:
    """Only the first operand has items."""
    del op, batch
    return rows[0] if not any(rows[1:]) else 0


def every(op: Op, rows: Rows, batch: int) -> int:
    """All operands have items, with as many rows."""
    del op, batch
    return rows[0] if all(n == rows[0] for n in rows) else 0


def elementwise(op: Op, rows: Rows, batch: int) -> int:
    """Operands broadcast."""
    del batch
    most = max(rows)
    return most if aligned(op.inputs, rows, most) else 0


def aligned(operands: Sequence[Value], rows: Rows, wanted: int) -> bool:
    """Whether operands broadcast with a tensor of `wanted` rows item by item."""
    return all(r == wanted or (not r and _repeats(v)) for v, r in zip(operands, rows, strict=True))


def _repeats(value: Value) -> bool:
    """Whether `value` broadcasts along dimension 0."""
    return value.type.dims[:1] in ((), (1,))


def then_expression(rule: BatchRule, start: Callable[[Op], int]) -> BatchRule:
    """The rule of an operation that applies an expression to its result and further operands.

    `start`: number of the first of these operands.
    """

    def both(op: Op, rows: Rows, batch: int) -> int:
        count = start(op)
        result = rule(op, rows[:count], batch)
        return result if aligned(op.inputs[count:], rows[count:], result) else 0

    return both


def window(rule: BatchRule) -> BatchRule:
    """A window that covers one extent of dimension 0 at a time, and each of them once."""

    def checked(op: Op, rows: Rows, batch: int) -> int:
        a = op.attributes
        alone = a["size"][0] == 1 and (not a.get("stride") or a["stride"][0] == 1)
        unpadded = not a.get("padding") or tuple(a["padding"][0]) == (0, 0)
        return rule(op, rows, batch) if alone and unpadded else 0

    return checked


def axes(op: Op, rows: Rows, batch: int) -> int:
    """Dimension 0 is none of the attribute `axes`."""
    del batch
    return rows[0] if all(axis > 0 for axis in op.attributes["axes"]) else 0


def axis(op: Op, rows: Rows, batch: int) -> int:
    """Dimension 0 is not the attribute `axis`."""
    return every(op, rows, batch) if op.attributes["axis"] > 0 else 0


def places(tensors: Sequence[Place], rows: Rows, batch: int) -> int:
    """Views of operands and then of results, whose shapes begin with the same dimension."""
    count, rest = divmod(tensors[0].shape[0], batch)
    if rest:
        return 0
    rows = [*rows, *[count] * (len(tensors) - len(rows))]
    for place, has_rows in zip(tensors, rows, strict=True):
        offset, *strides = place.where
        if not has_rows:
            if strides[0]:
                return 0
            continue
        extents = (count, *place.shape[1:])
        reach = offset + sum(s * (n - 1) for s, n in zip(strides, extents, strict=True))
        size = place.value.type.volume // batch
        if strides[0] * count != size or reach >= size:
            return 0
    return count
