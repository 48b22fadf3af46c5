"""Boxes of objects in images."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, take_room
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.tract.operators.movement import slice_in_dim
from nnefc.frontends.tract.operators.onnx import nonzero_first
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType, Value

_NEVER: Final = -math.inf
"""The score of a box that is out of the question."""


@operator("tract_onnx")
def tract_onnx_non_max_suppression(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: bool = False,
) -> Any:
    """Rows [n, 3] of batch, class and box, the best of each class first, of those that overlap no
    better one by more than `iou_threshold` of their union.

    There is room for all that may remain; how many rows are meant is counted by the model.
    """
    name = "non_max_suppression"
    batch, count, corners = of_rank(name, "boxes", boxes, 3)
    batch_of_scores, classes, of_scores = of_rank(name, "scores", scores, 3)
    if corners != 4 or batch_of_scores != batch or of_scores != count:
        message = f"boxes {list(boxes.type.dims)} and scores {list(scores.type.dims)} do not fit"
        raise OperatorError(
            f"argument/{name}", message, "boxes are [n, boxes, 4], scores [n, classes, boxes]"
        )
    turns = min(max_output_boxes_per_class, count)
    room = batch * classes * max(turns, 0)
    if room == 0:
        return KnownTensor(np.zeros((0, 3), np.int64), DType.INT64)
    take_room(make.budget, batch * classes * count)
    boxes, scores = make.unified(boxes, scores)
    if score_threshold is not None:
        scores = make("select", make("gt", scores, score_threshold), scores, _NEVER)
    sides = _sides(make, boxes, center_point_box)
    shared = [make.repeated(side, (batch, classes, count)) for side in sides]
    never = make.cast(operand(_NEVER), scores.type.dtype)
    numbers = KnownTensor(np.arange(count, dtype=np.int64).reshape(1, 1, count), DType.INT64)

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        """The best box of each class, and the scores of those that may come after it."""
        del slices
        (left,) = before
        index = within.cast(within("argmax_reduce", left, axes=(2,)), DType.INT64)
        is_there = within("gt", within("max_reduce", left, axes=(2,)), _NEVER)
        best = [within("gather_elements", side, index, axis=2) for side in whole]
        goes = within("gt", _overlap(within, whole, best), iou_threshold)
        goes = within("or", goes, within("eq", numbers, index))
        after = within("select", goes, never, left)
        one = (1, batch, classes)
        return [after], [within.reshape(index, one), within.reshape(is_there, one)]

    _, (index, is_there) = loop(make, turns, [scores], [], shared, turn)
    in_order = [make.reshape(make.transpose(x, (1, 2, 0)), (room,)) for x in (index, is_there)]
    where, number = nonzero_first(make, in_order[1])
    columns = [
        make("div", where, classes * turns),
        make("remainder", make("div", where, turns), classes),
        make("gather", in_order[0], where, axis=0),
    ]
    result = make("concat", [make.reshape(column, (room, 1)) for column in columns], axis=1)
    assert isinstance(result, Value)
    make.counted[result] = 0, make.value(number)
    return result


def _sides(make: OpBuilder, boxes: Operand, is_centered: bool) -> list[Any]:
    """Lower bounds along two axes, then upper ones, each [n, 1, boxes]."""
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


def _overlap(make: OpBuilder, boxes: list[Any], others: list[Any]) -> Any:
    """The area that boxes have in common, over that of both together; 0 where there is none."""
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
    sides = (make("sub", boxes[i + 2], boxes[i]) for i in range(2))
    return make("mul", *sides)
