"""`TFLite_Detection_PostProcess`: boxes of a single-shot detector, of which the best remain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.custom_options import options_of
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.quantization import parameters
from nnefc.frontends.tflite.registry import CODES, Node, custom_operator
from nnefc.ir import DType


@dataclass(frozen=True, slots=True)
class Detection:
    """The options of the operator."""

    most: int
    """Detections in all."""
    classes_per_box: int
    """Results for each box of the fast suppression."""
    most_per_class: int
    classes: int
    is_regular: bool
    """Whether boxes are suppressed for each class, instead of by their best score."""
    least_score: float
    overlap: float
    scales: tuple[float, float, float, float]
    """Of y, x, height and width."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Detection:
        """Raises OperatorError for options that are missing or wrong."""

        def number(name: str, default: float | None = None) -> Any:
            value = options.get(name, default)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise OperatorError("tflite/arguments", f"its option {name} is {value!r}")
            return value

        made = cls(
            int(number("max_detections")),
            int(number("max_classes_per_detection")),
            int(number("detections_per_class", 100)),
            int(number("num_classes")),
            bool(number("use_regular_nms", False)),
            float(number("nms_score_threshold")),
            float(number("nms_iou_threshold")),
            (number("y_scale"), number("x_scale"), number("h_scale"), number("w_scale")),
        )
        counts = made.most, made.classes_per_box, made.most_per_class, made.classes
        if min(counts) < 1 or not 0 < made.overlap <= 1 or 0 in made.scales:
            raise OperatorError("tflite/arguments", f"its options are {dict(options)}")
        return made


@custom_operator("TFLite_Detection_PostProcess")
def detection_post_process(
    make: OpBuilder, encodings: Operand, predictions: Operand, anchors: Operand, node: Node
) -> Any:
    """Boxes [1, n, 4], classes [1, n], scores [1, n] and their number [1].

    encodings [1, boxes, 4], predictions [1, boxes, classes], with or without a background class in
    front, anchors [boxes, 4]; codes are dequantized.
    """
    options = Detection.of(options_of(node))
    encodings, predictions, anchors = (
        _reals(make, each, node, i) for i, each in enumerate((encodings, predictions, anchors))
    )
    images, count, sides = of_rank("detection", "encodings", encodings, 3)
    rows = of_rank("detection", "predictions", predictions, 3)
    background = rows[2] - options.classes
    if images != 1 or sides < 4 or anchors.type.dims != (count, 4) or rows[:2] != (1, count):
        shapes = ", ".join(str(list(x.type.dims)) for x in (encodings, predictions, anchors))
        raise OperatorError("tflite/shape", f"its inputs have the shapes {shapes}")
    if background not in (0, 1) or not count:
        message = f"predictions have shape {list(rows)} for {options.classes} classes"
        raise OperatorError("tflite/shape", message)
    boxes = _decoded(make, make.reshape(encodings, (count, sides)), anchors, options.scales)
    scores = slice_in_dim(make, make.reshape(predictions, rows[1:]), 1, background, rows[2])
    suppress = _by_class if options.is_regular else _by_best_score
    return suppress(make, boxes, scores, options)


def _reals(make: OpBuilder, x: Operand, node: Node, index: int) -> Operand:
    """An input as reals."""
    tensor = node.inputs[index]
    assert tensor is not None
    if x.type.dtype.is_float:
        return x
    if tensor.type not in CODES:
        raise OperatorError("tflite/unsupported", f"{tensor} has items of {tensor.type}")
    return make("dequantize", x, *parameters(tensor))


def _decoded(
    make: OpBuilder, encodings: Operand, anchors: Operand, scales: tuple[float, ...]
) -> Operand:
    """Corners [boxes, 4] of boxes that are given relative to anchors (y, x, height, width)."""
    code, anchor = (
        [slice_in_dim(make, x, 1, i, i + 1) for i in range(4)] for x in (encodings, anchors)
    )
    centers: list[Operand] = []
    halves: list[Operand] = []
    for i in range(2):
        moved = make("mul", make("div", code[i], scales[i]), anchor[2 + i])
        centers.append(make("add", moved, anchor[i]))
        grown = make("exp", make("div", code[2 + i], scales[2 + i]))
        halves.append(make("mul", make("mul", grown, 0.5), anchor[2 + i]))
    low = [make("sub", c, h) for c, h in zip(centers, halves, strict=True)]
    high = [make("add", c, h) for c, h in zip(centers, halves, strict=True)]
    return make("concat", [*low, *high], axis=1)


def _suppressed(
    make: OpBuilder, boxes: Operand, scores: Operand, most: int, options: Detection
) -> tuple[Operand, Operand]:
    """Indices [classes, most] and numbers [classes] of boxes for scores [classes, boxes]."""
    classes, count = scores.type.dims
    indices, counts = make(
        "non_max_suppression",
        make.reshape(boxes, (1, count, 4)),
        make.reshape(scores, (1, classes, count)),
        most=most,
        iou_threshold=float(np.float32(options.overlap)),
        least_score=float(np.float32(options.least_score)),
    )
    return make.reshape(indices, (classes, most)), make.reshape(counts, (classes,))


def _by_best_score(make: OpBuilder, boxes: Operand, scores: Operand, options: Detection) -> Any:
    """The best scores of each box suppress others; each box has several classes."""
    each = min(options.classes_per_box, options.classes)
    most = min(options.most, boxes.type.dims[0])
    best, classes = make("topk", scores, k=each, axis=1)
    row = make.reshape(slice_in_dim(make, best, 1, 0, 1), (1, boxes.type.dims[0]))
    indices, counts = _suppressed(make, boxes, row, most, options)
    where, count = make.reshape(indices, (most,)), make.reshape(counts, ())
    chosen = make.reshape(gather(make, boxes, where, 0), (most, 1, 4))
    results = [
        make.repeated(chosen, (most, each, 4)),
        make.cast(make.reshape(gather(make, classes, where, 0), (most, each, 1)), DType.FLOAT32),
        make.reshape(gather(make, best, where, 0), (most, each, 1)),
    ]
    is_valid = make.reshape(make("lt", make.iota(most), count), (most, 1, 1))
    filled: list[Operand] = []
    for x in results:
        y = make("select", is_valid, x, 0.0)
        more = ((0, options.most - most), (0, options.classes_per_box - each), (0, 0))
        filled.append(make("pad", y, padding=more, border="constant", value=0.0))
    return _shaped(make, filled, options.most * options.classes_per_box, count)


def _by_class(make: OpBuilder, boxes: Operand, scores: Operand, options: Detection) -> Any:
    """Boxes are suppressed for each class; the best scores of all classes remain.

    Of equal scores, those of the last class come first.
    """
    count, classes = scores.type.dims
    each = min(options.most_per_class, count)
    backwards = known_array(np.arange(classes)[::-1], DType.INT64)
    rows = gather(make, make.transpose(scores, (1, 0)), backwards, 0)
    indices, counts = _suppressed(make, boxes, rows, each, options)
    is_valid = make(
        "lt", known_array(np.arange(each)[None], DType.INT64), make.reshape(counts, (classes, 1))
    )
    own = make("gather_elements", rows, indices, axis=1)
    candidates = make.reshape(make("select", is_valid, own, -math.inf), (classes * each,))
    most = min(options.most, classes * each)
    best, places = make("topk", candidates, k=most, axis=0)
    total = make("min", make.reshape(make("sum_reduce", counts, axes=(0,)), ()), most)
    where = gather(make, make.reshape(indices, (classes * each,)), places, 0)
    numbers = known_array(np.repeat(np.arange(classes)[::-1], each), DType.FLOAT32)
    results = [
        gather(make, boxes, where, 0),
        make.reshape(gather(make, numbers, places, 0), (most, 1)),
        make.reshape(best, (most, 1)),
    ]
    remains = make.reshape(make("lt", make.iota(most), total), (most, 1))
    filled: list[Operand] = []
    room = options.most * options.classes_per_box
    for x in results:
        y = make("select", remains, x, 0.0)
        more = ((0, room - most), (0, 0))
        filled.append(make("pad", y, padding=more, border="constant", value=0.0))
    return _shaped(make, filled, room, total)


def _shaped(make: OpBuilder, results: list[Operand], room: int, count: Operand) -> Any:
    """Boxes, classes and scores of one image, and the number of detections."""
    boxes, classes, scores = results
    return (
        make.reshape(boxes, (1, room, 4)),
        make.reshape(classes, (1, room)),
        make.reshape(scores, (1, room)),
        make.reshape(make.cast(count, DType.FLOAT32), (1,)),
    )
