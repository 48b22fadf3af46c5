"""Non-maximum suppression of detected boxes."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.counted_tensors import filled
from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, take_room
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.nonzero import nonzero_first, with_count
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.ir import DType

_DROPPED: Final = -math.inf
"""The score of a box that is below the threshold, selected already, or suppressed."""


def non_max_suppression(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    most: int,
    iou_threshold: float,
    score_threshold: float | None,
    is_centered: bool,
) -> Operand:
    """Rows [n, 3] of batch, class and box that remain after non-maximum suppression.

    Boxes [batch, n, 4], scores [batch, classes, n].  At most `most` boxes of a class remain.  A box
    is dropped if its intersection over union with a better box exceeds `iou_threshold`; boxes
    whose score does not exceed `score_threshold` do not take part.  `is_centered`: boxes are
    center and size, not two corners.  The result has room for all rows; the graph counts the valid
    ones.
    """
    batch, classes, count = _checked_extents(boxes, scores)
    turns = min(most, count)
    if batch * classes * max(turns, 0) == 0:
        return KnownTensor(np.zeros((0, 3), np.int64), DType.INT64)
    take_room(make.budget, batch * classes * count)
    boxes, scores = make.unified(filled(make, boxes, 0), filled(make, scores, _DROPPED))
    if score_threshold is not None:
        scores = make("select", make("gt", scores, score_threshold), scores, _DROPPED)
    sides = _sides(make, boxes, is_centered)
    shared = [make.repeated(side, (batch, classes, count)) for side in sides]
    dropped = make.cast(operand(_DROPPED), scores.type.dtype)
    numbers = KnownTensor(np.arange(count, dtype=np.int64).reshape(1, 1, count), DType.INT64)

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        """The remaining scores, and the best box of each class with whether it exists."""
        del slices
        (left,) = before
        index = within.cast(within("argmax_reduce", left, axes=(2,)), DType.INT64)
        exists = within("gt", within("max_reduce", left, axes=(2,)), _DROPPED)
        best = [within("gather_elements", side, index, axis=2) for side in whole]
        is_dropped = within("gt", _intersection_over_union(within, whole, best), iou_threshold)
        is_dropped = within("or", is_dropped, within("eq", numbers, index))
        after = within("select", is_dropped, dropped, left)
        one = (1, batch, classes)
        return [after], [within.reshape(index, one), within.reshape(exists, one)]

    _, (index, exists) = loop(make, turns, [scores], [], shared, turn)
    return _rows(make, index, exists)


def _checked_extents(boxes: Operand, scores: Operand) -> tuple[int, int, int]:
    """(batch, classes, boxes) of boxes [n, boxes, 4] and scores [n, classes, boxes]."""
    name = "non_max_suppression"
    batch, count, corners = of_rank(name, "boxes", boxes, 3)
    batch_of_scores, classes, of_scores = of_rank(name, "scores", scores, 3)
    if corners != 4 or batch_of_scores != batch or of_scores != count:
        message = f"boxes {list(boxes.type.dims)} and scores {list(scores.type.dims)} do not fit"
        raise OperatorError(
            f"argument/{name}", message, "boxes are [n, boxes, 4], scores [n, classes, boxes]"
        )
    return batch, classes, count


def _rows(make: OpBuilder, index: Operand, exists: Operand) -> Operand:
    """Rows (batch, class, box) of the boxes [turns, batch, classes] that exist, and their count."""
    turns, batch, classes = index.type.dims
    room = batch * classes * turns
    index, exists = (make.reshape(make.transpose(x, (1, 2, 0)), (room,)) for x in (index, exists))
    where, number = nonzero_first(make, exists)
    columns = [
        make("div", where, classes * turns),
        make("remainder", make("div", where, turns), classes),
        make("gather", index, where, axis=0),
    ]
    result = make("concat", [make.reshape(column, (room, 1)) for column in columns], axis=1)
    return with_count(make, result, 0, number)


def _sides(make: OpBuilder, boxes: Operand, is_centered: bool) -> list[Any]:
    """Lower bounds along both axes, then upper bounds, each [n, 1, boxes].

    Boxes [n, boxes, 4] are two opposite corners, or center and size.
    """
    batch, count, _ = boxes.type.dims
    first, second, third, fourth = (
        make.reshape(slice_in_dim(make, boxes, 2, i, i + 1), (batch, 1, count)) for i in range(4)
    )
    if is_centered:  # center and size
        halves = [make("mul", size, 0.5) for size in (third, fourth)]
        centers = (first, second)
        return [
            make(name, center, half)
            for name in ("sub", "add")
            for center, half in zip(centers, halves, strict=True)
        ]
    pairs = ((first, third), (second, fourth))  # two opposite corners
    return [make(name, *pair) for name in ("min", "max") for pair in pairs]


def _intersection_over_union(make: OpBuilder, boxes: list[Any], others: list[Any]) -> Any:
    """Intersection over union of boxes, given by their sides; 0 where they do not intersect."""
    extents = [
        make("sub", make("min", upper, other_upper), make("max", lower, other_lower))
        for lower, upper, other_lower, other_upper in zip(
            boxes[:2], boxes[2:], others[:2], others[2:], strict=True
        )
    ]
    common = make("mul", *(make("max", extent, 0.0) for extent in extents))
    union = make("sub", make("add", _area(make, boxes), _area(make, others)), common)
    return make("select", make("gt", common, 0.0), make("div", common, union), 0.0)


def _area(make: OpBuilder, boxes: list[Any]) -> Any:
    """The areas of boxes, given by their sides."""
    sides = (make("sub", boxes[i + 2], boxes[i]) for i in range(2))
    return make("mul", *sides)
