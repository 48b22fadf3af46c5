"""Which items of a result are valid, after an operation on a tensor whose valid items are counted.

A tensor with a data-dependent extent has room for all items; a run counts the valid ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from nnefc.ir import Op, Value
from nnefc.ops.tools.table import declared
from nnefc.symbolic.integers import statically_equal

Counted = Mapping[Value, tuple[int, Value]]
"""Tensors with fewer valid items along an axis than its extent: axis and their number."""
UNCOUNTED: Final = -1
"""The axis of results in which only valid items of the operand occur."""


def result_axis(op: Op, x: Value, counted: Counted) -> int | None:
    """The axis of the results whose valid items are those of operand `x`, which is in `counted`.

    `UNCOUNTED` if no invalid item of `x` has an effect; None for an operation that computes with
    invalid items.
    """
    axis, _ = counted[x]
    if declared()[op.name].elementwise or op.name == "cast":
        return axis
    rule = _RULES.get(op.name)
    return None if rule is None else rule(op, x, axis, counted)


def _transposed(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return op.attributes["axes"].index(axis)


def _of_regions(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The cells of a `weighted_gather` are counted as its regions are."""
    return axis if axis == 0 and x is not op.inputs[0] else None


def is_selected(
    op_name: str, attributes: Mapping[str, Any], table: Value, indices: Value, counted: Counted
) -> bool:
    """Whether a gather selects along the axis of the table that has a count."""
    if table not in counted:
        return False
    axis, _ = counted[table]
    if op_name == "gather":
        return axis == attributes["axis"]
    first = attributes.get("batch_dims", 0)
    return first <= axis < first + indices.type.dims[-1]


def _gathered(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """Of table and indices one is counted, or both and the indices select valid items."""
    table, indices = op.inputs
    if is_selected(op.name, op.attributes, table, indices, counted):
        return UNCOUNTED if x is table else _of_indices(op, axis)
    if table in counted and indices in counted:
        return None
    if x is indices:
        return _of_indices(op, axis)
    if op.name == "gather_nd":
        return None
    at = op.attributes["axis"]
    return axis if axis < at else axis + indices.type.rank - 1


def _of_indices(op: Op, axis: int) -> int | None:
    """The axis of the result that an axis of the indices becomes."""
    if op.name == "gather":
        return op.attributes["axis"] + axis
    return axis if op.attributes["batch_dims"] <= axis < op.inputs[1].type.rank - 1 else None


def merged(op: Op, axis: int) -> tuple[int, int] | None:
    """(axis, factor) of a reshaped tensor: an axis becomes the first of those that are merged into
    an axis, of which `factor` times as many items are valid; None if valid items do not stay first.
    """
    old, new = op.inputs[0].type.dims, op.output.type.dims
    before = math.prod(old[:axis])
    behind = math.prod(old[axis + 1 :])
    places = [i for i in range(len(new)) if statically_equal(math.prod(new[:i]), before)]
    for i in places:
        if statically_equal(new[i], old[axis]) and statically_equal(
            math.prod(new[i + 1 :]), behind
        ):
            return i, 1
    for i in places:
        factor, rest = divmod(behind, math.prod(new[i + 1 :]))
        if factor and not rest and statically_equal(new[i], old[axis] * factor):
            return i, factor
    return None


def _reshaped(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    found = merged(op, axis)
    return None if found is None else found[0]


def _joined(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """Along another axis, for tensors that are counted along the same."""
    same = all(counted.get(each, counted[x])[0] == axis for each in op.inputs)
    return axis if same and axis != op.attributes["axis"] else None


def _convolved(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The items of a batch, or the rows of a layer, are independent of each other."""
    return axis if axis == 0 and x is op.inputs[0] else None


def _kept(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The axis of the operand; along it, invalid items have no effect on the others."""
    return axis


def _beside(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """The operation computes along other axes."""
    attributes = op.attributes
    axes = attributes["axes"] if "axes" in attributes else (attributes["axis"],)
    return axis if axis not in axes else None


def _padded(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return axis if tuple(op.attributes["padding"][axis]) == (0, 0) else None


def _tiled(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    return axis if statically_equal(op.attributes["repeats"][axis], 1) else None


def is_contracted(number: int, x: Value, attributes: Mapping[str, Any], counted: Counted) -> bool:
    """Whether operand `number` of a product of matrices is summed along the axis with a count."""
    transposed = attributes.get("transposeB" if number else "transposeA", False)
    return x in counted and counted[x][0] == x.type.rank - (2 if bool(number) != transposed else 1)


def _multiplied(op: Op, x: Value, axis: int, counted: Counted) -> int | None:
    """Matrices are counted, or the rows of the first one, or invalid items are summed as 0."""
    first, second, *_ = op.inputs
    if axis < x.type.rank - 2 and first.type.rank == second.type.rank:
        return axis if all(counted.get(y, counted[x])[0] == axis for y in (first, second)) else None
    factors = enumerate((first, second))
    if all(is_contracted(i, y, op.attributes, counted) for i, y in factors):
        return UNCOUNTED
    is_row = axis == first.type.rank - 2 and not op.attributes["transposeA"]
    return axis if x is first and is_row and second not in counted else None


_Rule = Callable[[Op, Value, int, Counted], "int | None"]
_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("avg_pool", "batch_normalization", "box", "max_pool"), _convolved),
    "concat": _joined,
    "conv": _convolved,
    "deconv": _convolved,
    "gather": _gathered,
    "gather_nd": _gathered,
    "integer_conv": _convolved,
    "integer_deconv": _convolved,
    "integer_matmul": _multiplied,
    "linear": _convolved,
    "matmul": _multiplied,
    "pad": _padded,
    **dict.fromkeys(("quantize", "dequantize"), _kept),
    "reshape": _reshaped,
    "softmax": _kept,
    "tile": _tiled,
    "transpose": _transposed,
    "weighted_gather": _of_regions,
    **dict.fromkeys(
        (
            *("slice", "topk", "sum_reduce", "max_reduce", "min_reduce", "mean_reduce"),
            *("product_reduce", "all_reduce", "any_reduce", "argmax_reduce", "argmin_reduce"),
        ),
        _beside,
    ),
}
