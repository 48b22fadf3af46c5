"""Batch rules: operations that compute the items of a batch independently of each other.

An operation is separable if item i of its results depends only on item i of its operands.  A tensor
[batch * rows, ...] holds `rows` indices of dimension 0 for each item; rows = 0 means that all items
share the tensor (weights, a mean over the batch).  The slices of the items are contiguous in memory
and follow each other, in row-major and in blocked layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnefc.ir import Attribute, Op, Value
from nnefc.ops.core.views import TensorView

Rows = Sequence[int]
"""Rows of every operand, or of every result; 0 for a tensor that all items share."""

BatchRule = Callable[[Op, Rows, int], int]
"""`rule(op, rows of the operands, batch)` returns the rows of the results, 0 if not separable."""

ResizeRule = Callable[[Op, int], dict[str, Attribute]]
"""`rule(op, rows)` returns the attributes of `op` for `rows` rows in all of the results."""


def first(op: Op, rows: Rows, batch: int) -> int:
    """The first operand has items; all items share the others."""
    del op, batch
    return rows[0] if not any(rows[1:]) else 0


def every(op: Op, rows: Rows, batch: int) -> int:
    """All operands have items, with equal rows."""
    del op, batch
    return rows[0] if all(n == rows[0] for n in rows) else 0


def elementwise(op: Op, rows: Rows, batch: int) -> int:
    """Operands with items broadcast against each other and against shared ones."""
    del batch
    most = max(rows)
    return most if aligned(op.inputs, rows, most) else 0


def aligned(operands: Sequence[Value], rows: Rows, wanted: int) -> bool:
    """Whether each operand has `wanted` rows, or broadcasts along dimension 0."""
    return all(r == wanted or (not r and _repeats(v)) for v, r in zip(operands, rows, strict=True))


def _repeats(value: Value) -> bool:
    """Whether `value` broadcasts along dimension 0."""
    return value.type.dims[:1] in ((), (1,))


def then_expression(rule: BatchRule, start: Callable[[Op], int]) -> BatchRule:
    """The rule of an operation that applies an expression to its result and further operands.

    `start(op)` returns the index of the first of these operands.
    """

    def rule_with_expression(op: Op, rows: Rows, batch: int) -> int:
        count = start(op)
        result = rule(op, rows[:count], batch)
        return result if aligned(op.inputs[count:], rows[count:], result) else 0

    return rule_with_expression


def window(rule: BatchRule) -> BatchRule:
    """`rule`, if the window has size 1, stride 1 and no padding along dimension 0."""

    def checked(op: Op, rows: Rows, batch: int) -> int:
        a = op.attributes
        alone = a["size"][0] == 1 and (not a.get("stride") or a["stride"][0] == 1)
        unpadded = not a.get("padding") or tuple(a["padding"][0]) == (0, 0)
        return rule(op, rows, batch) if alone and unpadded else 0

    return checked


def axes(op: Op, rows: Rows, batch: int) -> int:
    """The attribute `axes` does not contain dimension 0."""
    del batch
    return rows[0] if all(axis > 0 for axis in op.attributes["axes"]) else 0


def axis(op: Op, rows: Rows, batch: int) -> int:
    """The attribute `axis` is not dimension 0."""
    return every(op, rows, batch) if op.attributes["axis"] > 0 else 0


def strided(tensors: Sequence[TensorView], rows: Rows, batch: int) -> int:
    """Views of the operands, then of the results, which all have the same first dimension.

    Each view must read its item within the item's slice, or, for a shared tensor, repeat.
    """
    count, rest = divmod(tensors[0].shape[0], batch)
    if rest:
        return 0
    rows = [*rows, *[count] * (len(tensors) - len(rows))]
    for tensor, has_rows in zip(tensors, rows, strict=True):
        offset, *strides = tensor.view
        if not has_rows:
            if strides[0]:
                return 0
            continue
        extents = (count, *tensor.shape[1:])
        reach = offset + sum(s * (n - 1) for s, n in zip(strides, extents, strict=True))
        size = tensor.value.type.volume // batch
        if strides[0] * count != size or reach >= size:
            return 0
    return count


def shape_attribute(name: str) -> ResizeRule:
    """The rule of an operation whose attribute `name`, if not empty, is a shape of the results."""

    def rule(op: Op, rows: int) -> dict[str, Attribute]:
        attributes = dict(op.attributes)
        if shape := attributes.get(name):
            attributes[name] = (rows, *shape[1:])
        return attributes

    return rule
