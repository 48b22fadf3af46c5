"""Operators whose results have extents that a run tells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.boxes import non_max_suppression
from nnefc.frontends.common.operators.nonzero import nonzero_first, nonzero_positions, with_count
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType, TensorType


@operator("NonZero", since=9)
def non_zero(make: OpBuilder, X: Operand) -> Any:
    return nonzero_positions(make, X if X.type.rank else make.reshape(X, (1,)))


@operator("Compress", since=9)
def compress(
    make: OpBuilder, input: Operand, condition: Operand, *, axis: int | None = None
) -> Any:
    """The slices along an axis, by default the items, for which a condition holds."""
    x = input
    if axis is None:
        x, axis = make.reshape(x, (math.prod(x.type.dims),)), 0
    at = normalize_axis(axis, x.type.rank)
    if condition.type.rank != 1:
        message = f"condition has shape {list(condition.type.dims)}; a tensor of rank 1 is expected"
        raise OperatorError("argument/compress", message)
    length = min(condition.type.dims[0], x.type.dims[at])
    flags = make.cast(slice_in_dim(make, condition, 0, 0, length), DType.BOOL)
    if length == 0:
        return slice_in_dim(make, x, at, 0, 0)
    where, count = nonzero_first(make, flags)
    if isinstance(count, KnownTensor):
        return make("gather", x, with_count(make, where, 0, count), axis=at)
    return with_count(make, make("gather", x, where, axis=at), at, count)


@operator("NonMaxSuppression", since=10)
def non_maximum_suppression(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    *,
    center_point_box: bool = False,
) -> Any:
    most = max_output_boxes_per_class
    return non_max_suppression(
        make, boxes, scores, most, iou_threshold, score_threshold, center_point_box
    )


# -- unique


@operator("Unique", domain=MICROSOFT)
def microsoft_unique(make: OpBuilder, x: Operand) -> Any:
    """(items in the order in which they occur first, number of each among them, their counts)."""
    of_rank("unique", "x", x, 1)
    items, _, inverse, counts = unique(make, x, sorted=False)
    return items, inverse, counts


@operator("Unique", since=11)
def unique(make: OpBuilder, X: Operand, *, axis: int | None = None, sorted: bool = True) -> Any:
    """(slices, index of the first of each, number of each input slice among them, their counts).

    Slices along an axis, by default items, are compared lexicographically.
    """
    x = X
    if axis is None:
        x, axis = make.reshape(x, (math.prod(x.type.dims),)), 0
    at = normalize_axis(axis, x.type.rank)
    order = (at, *(i for i in range(x.type.rank) if i != at))
    front = make.transpose(x, order)
    count, *rest = front.type.dims
    if count == 0:
        none = EmptyTensor(TensorType(DType.INT64, (0,)))
        return x, none, none, none
    if math.prod(rest) == 0:  # all slices are equal
        inverse = make.repeated(KnownTensor(np.zeros(1, np.int64), DType.INT64), (count,))
        return slice_in_dim(make, x, at, 0, 1), _list(0), inverse, _list(count)
    first, inverse, counts, number = _groups(make, make.reshape(front, (count, math.prod(rest))))
    if not sorted:
        first, inverse, counts = _by_first(make, first, inverse, counts, number)
    slices = make.transpose(
        make("gather", front, first, axis=0), [order.index(i) for i in range(x.type.rank)]
    )
    return (
        with_count(make, slices, at, number),
        with_count(make, first, 0, number),
        inverse,
        with_count(make, counts, 0, number),
    )


def _list(item: int) -> KnownTensor:
    return KnownTensor(operand(item).array.reshape(1), DType.INT64)  # pyright: ignore


def _groups(make: OpBuilder, rows: Operand) -> tuple[Operand, Operand, Operand, Operand]:
    """Groups of equal rows in ascending order: index of the first of each, group of each row, size
    of each group, number of groups.  The first and the last but one have room for all rows.
    """
    count = rows.type.dims[0]
    order = _ascending(make, rows)
    ordered = make("gather", rows, order, axis=0)
    starts: Operand = KnownTensor(operand(True).array.reshape(1), DType.BOOL)  # pyright: ignore
    if count > 1:
        lower = slice_in_dim(make, ordered, 0, 0, count - 1)
        upper = slice_in_dim(make, ordered, 0, 1, count)
        differs = make("any_reduce", _differ(make, lower, upper), axes=(1,))
        starts = make("concat", [starts, make.reshape(differs, (count - 1,))], axis=0)
    group = make("sub", running_sum(make, make.cast(starts, DType.INT64), 0), 1)
    inverse = make("scatter_elements", make("mul", group, 0), order, group, axis=0)
    where, number = nonzero_first(make, starts)
    ends: list[Operand] = [_list(0)]
    if count > 1:
        ends.insert(0, slice_in_dim(make, where, 0, 1, count))
    is_inner = make("lt", make.iota(count), make("sub", number, 1))
    following = ends[0] if len(ends) == 1 else make("concat", ends, axis=0)
    sizes = make("sub", make("select", is_inner, following, count), where)
    return make("gather", order, where, axis=0), inverse, sizes, number


def _differ(make: OpBuilder, x: Operand, y: Operand) -> Operand:
    return make("xor" if x.type.dtype is DType.BOOL else "ne", x, y)


def _ascending(make: OpBuilder, rows: Operand) -> Operand:
    """Indices of rows in lexicographical order; equal rows keep theirs.

    Rows are sorted by each column, from the last to the first (radix sort).
    """
    count, width = rows.type.dims
    if rows.type.dtype is DType.BOOL:
        rows = make.cast(rows, DType.UINT8)
    columns = make.transpose(rows, (1, 0))

    def by_column(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del whole
        keys = within("gather", within.reshape(slices[0], (count,)), before[0], axis=0)
        _, positions = within("topk", keys, k=count, axis=0, largest=False)
        return [within("gather", before[0], positions, axis=0)], []

    finals, _ = loop(make, width, [make.iota(count)], [columns], [], by_column, backwards=[True])
    return finals[0]


def _by_first(
    make: OpBuilder, first: Operand, inverse: Operand, counts: Operand, number: Operand
) -> tuple[Operand, Operand, Operand]:
    """Groups in the order of their first rows."""
    (count,) = first.type.dims
    index = make.iota(count)
    keys = make("select", make("lt", index, number), first, make.iota(count, count))
    _, order = make("topk", keys, k=count, axis=0, largest=False)
    ranks = make("scatter_elements", make("mul", order, 0), order, index, axis=0)
    first, counts = (make("gather", x, order, axis=0) for x in (first, counts))
    return first, make("gather", ranks, inverse, axis=0), counts
