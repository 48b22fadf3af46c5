"""Non-maximum suppression of detected boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.counted_tensors import filled
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, take_room
from nnefc.frontends.common.operators.nonzero import nonzero_first, with_count
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType


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
    whose score does not exceed `score_threshold`, or is NaN, do not take part.  `is_centered`:
    boxes are center and size, not two corners.  The result has room for all rows; the graph counts
    the valid ones.  Raises OperatorError.
    """
    batch, classes, count = _checked_extents(boxes, scores)
    room = min(most, count)
    if batch * classes * max(room, 0) == 0:
        return KnownTensor(np.zeros((0, 3), np.int64), DType.INT64)
    take_room(make.budget, batch * classes * count)
    boxes, scores = make.unified(filled(make, boxes, 0), filled(make, scores, math.nan))
    real = np.float64 if scores.type.dtype is DType.FLOAT64 else np.float32
    least = -math.inf
    if score_threshold is not None:
        with np.errstate(over="ignore"):
            least = float(np.nextafter(real(score_threshold), real(math.inf)))
        if not score_threshold < least:  # infinity or NaN, which no score exceeds
            return KnownTensor(np.zeros((0, 3), np.int64), DType.INT64)
    indices, counts = make(
        "non_max_suppression",
        boxes,
        scores,
        most=room,
        iou_threshold=float(real(iou_threshold)),
        least_score=least,
        is_centered=is_centered,
    )
    return _rows(make, indices, counts)


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


def _rows(make: OpBuilder, indices: Operand, counts: Operand) -> Operand:
    """Rows (batch, class, box) of the first `counts` [batch, classes] of `indices`."""
    batch, classes, room = indices.type.dims
    every = batch * classes * room
    columns: list[Any]
    if batch * classes == 1:
        zero = KnownTensor(np.zeros((room, 1), np.int64), DType.INT64)
        columns, number = [zero, zero, indices], make.reshape(counts, ())
    else:
        numbers = make.reshape(make.iota(room), (1, 1, room))
        exist = make("lt", numbers, make.reshape(counts, (batch, classes, 1)))
        where, number = nonzero_first(make, make.reshape(exist, (every,)))
        columns = [
            make("div", where, classes * room),
            make("remainder", make("div", where, room), classes),
            make("gather", make.reshape(indices, (every,)), where, axis=0),
        ]
    columns = [make.reshape(column, (every, 1)) for column in columns]
    return with_count(make, make("concat", columns, axis=1), 0, number)
