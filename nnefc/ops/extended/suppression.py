"""non_max_suppression: the best boxes that do not overlap better ones, as in ONNX."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.spec import Call, NotKnown, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing


def _non_max_suppression(call: Call) -> list[TensorType]:
    most: int | None = attempt(lambda: call["most"])
    overlap: float | None = attempt(lambda: call["iou_threshold"])
    if overlap is not None:
        call.require(
            0 <= overlap <= 1, f"iou_threshold must be in the range 0 to 1: it is {overlap}"
        )
    boxes, scores = call.shape("boxes"), call.shape("scores")
    call.require(
        len(boxes) == len(scores) == 3
        and boxes[2] == 4
        and boxes[0] == scores[0]
        and boxes[1] == scores[2],
        "boxes must have the shape [n, boxes, 4] and scores [n, classes, boxes]: "
        f"boxes.shape = {listing(boxes)}, scores.shape = {listing(scores)}",
    )
    call.stop_if_wrong()
    if most is None:
        raise NotKnown
    call.require(
        0 < most <= boxes[1],
        f"most must be positive and at most the number of boxes: "
        f"most = {most}, boxes.shape = {listing(boxes)}",
    )
    return [
        TensorType(DType.INT64, (*scores[:2], most)),
        TensorType(DType.INT64, tuple(scores[:2])),
    ]


def non_max_suppression(
    boxes: Array,
    scores: Array,
    *,
    most: int,
    iou_threshold: float,
    least_score: float,
    is_centered: bool = False,
) -> tuple[Array, Array]:
    """(indices, counts): the boxes of each class that remain, best first, and their number.

    boxes: [n, boxes, 4]; scores: [n, classes, boxes]; indices: [n, classes, most], 0 behind the
    last one; counts: [n, classes].
    """
    low, high = boxes[..., :2], boxes[..., 2:]
    if is_centered:
        low, high = low - high / 2, low + high / 2
    else:
        low, high = np.minimum(low, high), np.maximum(low, high)
    indices = np.zeros((*scores.shape[:2], most), np.int64)
    counts = np.zeros(scores.shape[:2], np.int64)
    for image, class_ in np.ndindex(*counts.shape):
        row = scores[image, class_]
        candidates = np.flatnonzero(row >= least_score)
        left = candidates[np.argsort(-row[candidates], kind="stable")]
        number = 0
        while len(left) and number < most:
            indices[image, class_, number] = best = left[0]
            number += 1
            overlaps = _overlaps(low[image], high[image], best, left[1:])
            left = left[1:][~(overlaps > iou_threshold)]
        counts[image, class_] = number
    return indices, counts


def _overlaps(low: Array, high: Array, one: int, others: Array) -> Array:
    """Intersection over union of a box with others, given by their bounds [boxes, 2].

    0 where they do not intersect.
    """
    with np.errstate(all="ignore"):
        sides = np.minimum(high[one], high[others]) - np.maximum(low[one], low[others])
        common = np.prod(np.maximum(sides, 0), axis=-1)
        areas = np.prod(high - low, axis=-1)
        union = areas[one] + areas[others] - common
        return np.where(common > 0, common / np.where(common > 0, union, 1), 0)


def _sample(
    images: int, classes: int, boxes: int, most: int, overlap: float, least: float, centered: bool
) -> Sample:
    return Sample(
        inputs=((images, boxes, 4), (images, classes, boxes)),
        attributes={
            "most": most,
            "iou_threshold": overlap,
            "least_score": least,
            "is_centered": centered,
        },
        data="ties",
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="non_max_suppression",
        signature="""
        fragment non_max_suppression(
            boxes: tensor<scalar>,
            scores: tensor<scalar>,
            most: integer,
            iou_threshold: scalar,
            least_score: scalar,
            is_centered: logical = false )
        -> ( indices: tensor<integer>, counts: tensor<integer> )""",
        section="tract",
        summary="The best boxes of each class, by score, then by index, that do not overlap better "
        "ones, and their number.",
        infer=_non_max_suppression,
        reference=non_max_suppression,
        traits=OPAQUE,
        samples=(
            _sample(1, 1, 40, 40, 0.5, -math.inf, False),
            _sample(2, 3, 9, 4, 0.0, -0.5, False),
            _sample(1, 2, 70, 50, 0.25, 0.0, True),
        ),
    ),
)
