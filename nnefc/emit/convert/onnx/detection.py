"""The handler that writes non-maximum suppression in ONNX."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.ir import DType, Op


def _non_max_suppression(w: OnnxWriter, op: Op) -> list[str]:
    """(indices [batch, classes, most], counts [batch, classes]).

    ONNX returns a row (batch, class, box) for each box that remains, ordered by batch and class.
    Rows are counted by class, and the boxes of a class begin behind those of the classes before.
    """
    batch, classes, _ = op.inputs[1].type.dims
    most: int = op.attributes["most"]
    every = batch * classes
    rows = _rows(w, op)
    box, number = (w.one("Gather", rows, w.store(i, np.int64), axis=1) for i in (2, 1))
    if not isinstance(batch, int) or batch != 1:
        image = w.one("Gather", rows, w.store(0, np.int64), axis=1)
        number = w.one("Add", w.one("Mul", image, w.integers((classes,))), number)
    number = w.one("Unsqueeze", number, w.store([1], np.int64))
    each = w.numbers(every)
    counts = _number_of(w, w.one("Equal", number, each))
    before = _number_of(w, w.one("Less", number, each))
    column = w.integers((every, 1))
    position = w.one("Add", w.one("Reshape", before, column), w.numbers(most))
    zero = w.store(0, np.int64)
    boxes = w.one("Concat", box, w.one("Expand", zero, w.integers((most,))), axis=0)
    exists = w.one("Less", w.numbers(most), w.one("Reshape", counts, column))
    indices = w.one("Where", exists, w.one("Gather", boxes, position), zero)
    shapes = ((batch, classes, most), (batch, classes))
    results = [
        w.one("Reshape", name, w.integers(shape))
        for name, shape in zip((indices, counts), shapes, strict=True)
    ]
    types = [value.type.dtype for value in op.outputs]
    return [
        name if dtype is DType.INT64 else w.cast(name, dtype)
        for name, dtype in zip(results, types, strict=True)
    ]


def _rows(w: OnnxWriter, op: Op) -> str:
    """The boxes that remain, int64 [n, 3]; ONNX takes boxes and scores in float32."""
    a = op.attributes
    names = [
        w.name(x) if x.type.dtype is DType.FLOAT32 else w.cast(w.name(x), DType.FLOAT32)
        for x in op.inputs
    ]
    limits = [w.integers((a["most"],)), w.store(np.float32(a["iou_threshold"]))]
    if a["least_score"] != -math.inf:  # ONNX selects scores above a number
        limits.append(w.store(np.nextafter(np.float32(a["least_score"]), np.float32(-np.inf))))
    centered = {"center_point_box": 1} if a["is_centered"] else {}
    return w.one("NonMaxSuppression", *names, *limits, **centered)


def _number_of(w: OnnxWriter, flags: str) -> str:
    """The number of rows whose flag is set, for each column."""
    axes = w.store([0], np.int64)
    return w.one("ReduceSum", w.cast(flags, DType.INT64), axes, keepdims=0)


DETECTION: Final[dict[str, Handler]] = {"non_max_suppression": _non_max_suppression}
