"""Which items of a result are valid, after an operation on a tensor whose valid items are counted.

A tensor with a data-dependent extent has room for all items; a run counts the valid ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from nnefc.ir import Op, Value
from nnefc.ops.tools.table import declared
from nnefc.symbolic.integers import statically_equal

Counted = Mapping[Value, tuple[int, Value]]
"""Tensors with fewer valid items along an axis than its extent: axis and their number."""


def result_axis(op: Op, x: Value, counted: Counted) -> int | None:
    """The axis of the results whose valid items are those of operand `x`, which is in `counted`.

    None for an operation that computes with invalid items.
    """
    axis, _ = counted[x]
    if declared()[op.name].elementwise or op.name == "cast":
        return axis
    rule = _RULES.get(op.name)
    return None if rule is None else rule(op, x, axis, counted)


def _transposed(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return op.attributes["axes"].index(axis)


def _gathered(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The table or the indices are counted, not both."""
    table, indices = op.inputs
    at = op.attributes["axis"]
    if x is indices:
        return at + axis if table not in counted else None
    if indices in counted or axis == at:
        return None
    return axis if axis < at else axis + indices.type.rank - 1


def _gathered_nd(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    table, indices = op.inputs
    is_row = op.attributes["batch_dims"] <= axis < indices.type.rank - 1
    return axis if x is indices and is_row and table not in counted else None


def _reshaped(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The dimension stays if the products of those before and behind it do."""
    old, new = x.type.dims, op.output.type.dims
    for i, extent in enumerate(new):
        if (
            statically_equal(extent, old[axis])
            and statically_equal(math.prod(new[:i]), math.prod(old[:axis]))
            and statically_equal(math.prod(new[i + 1 :]), math.prod(old[axis + 1 :]))
        ):
            return i
    return None


def _joined(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """Along another axis, if all tensors have the same number of valid items."""
    same = all(counted.get(each) == counted[x] for each in op.inputs)
    return axis if same and axis != op.attributes["axis"] else None


def _beside(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The operation computes along other axes."""
    attributes = op.attributes
    axes = attributes["axes"] if "axes" in attributes else (attributes["axis"],)
    return axis if axis not in axes else None


def _padded(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return axis if tuple(op.attributes["padding"][axis]) == (0, 0) else None


def _tiled(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return axis if statically_equal(op.attributes["repeats"][axis], 1) else None


def _multiplied(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The rows of the first matrix are counted."""
    first, second = op.inputs
    is_row = axis == first.type.rank - 2 and not op.attributes["transposeA"]
    return axis if x is first and is_row and second not in counted else None


_Rule = Callable[[Op, Value, int, Counted], "int | None"]
_RULES: Final[Mapping[str, _Rule]] = {
    "concat": _joined,
    "gather": _gathered,
    "gather_nd": _gathered_nd,
    "matmul": _multiplied,
    "pad": _padded,
    "reshape": _reshaped,
    "tile": _tiled,
    "transpose": _transposed,
    **dict.fromkeys(
        (
            *("slice", "softmax", "topk", "sum_reduce", "max_reduce", "min_reduce", "mean_reduce"),
            *("product_reduce", "all_reduce", "any_reduce", "argmax_reduce", "argmin_reduce"),
        ),
        _beside,
    ),
}
