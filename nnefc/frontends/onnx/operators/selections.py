"""Operators whose results have extents that a run tells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.boxes import non_max_suppression
from nnefc.frontends.common.operators.equal_rows import (
    groups_by_first,
    groups_of_rows,
    one_index,
)
from nnefc.frontends.common.operators.nonzero import nonzero_first, nonzero_positions, with_count
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError
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
        return slice_in_dim(make, x, at, 0, 1), one_index(0), inverse, one_index(count)
    first, inverse, counts, number = groups_of_rows(
        make, make.reshape(front, (count, math.prod(rest)))
    )
    if not sorted:
        first, inverse, counts = groups_by_first(make, first, inverse, counts, number)
    slices = make.transpose(
        make("gather", front, first, axis=0), [order.index(i) for i in range(x.type.rank)]
    )
    return (
        with_count(make, slices, at, number),
        with_count(make, first, 0, number),
        inverse,
        with_count(make, counts, 0, number),
    )
