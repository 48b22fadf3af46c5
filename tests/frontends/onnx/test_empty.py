"""Data movement of tensors without items against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.onnx.onnxruntime_oracle import Array, compare, reals

NONE = np.zeros((0, 3), np.float32)


def int64(*items: int) -> Array:
    return np.array(items, np.int64)


CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Transpose", [NONE], {}),
    ("Concat", [NONE, reals(2, 3)], {"axis": 0}),
    ("Slice", [reals(4, 3), int64(2), int64(2)], {"known": [1, 2]}),
    ("Pad", [NONE, int64(1, 0, 1, 0)], {"known": [1]}),
    ("Tile", [NONE, int64(2, 3)], {"known": [1]}),
    ("Tile", [reals(2, 3), int64(0, 3)], {"known": [1]}),
    ("Gather", [reals(2, 3), np.zeros(0, np.int64)], {}),
    ("Gather", [NONE, int64(0)], {"axis": 1}),
    ("GatherElements", [reals(2, 3), np.zeros((0, 3), np.int64)], {}),
    ("GatherND", [reals(2, 3), np.zeros((0, 1), np.int64)], {}),
    ("ScatterND", [reals(2, 3), np.zeros((0, 1), np.int64), NONE], {}),
    ("ScatterElements", [reals(2, 3), np.zeros((0, 3), np.int64), NONE], {}),
    ("Split", [NONE], {"axis": 1, "outputs": [True] * 3, "opset": 13}),
    ("NonZero", [NONE], {"types": [7]}),
    ("Compress", [NONE, np.zeros(0, bool)], {"axis": 0}),
    ("Unique", [np.zeros(0, np.float32)], {"outputs": [True] * 4, "types": [1, 7, 7, 7]}),
    ("Trilu", [NONE], {}),
    ("EyeLike", [NONE], {}),
    (
        "OneHot",
        [np.zeros(0, np.int64), int64(3), np.array([0, 1], np.float32)],
        {"known": [1], "types": [1]},
    ),
    ("TopK", [NONE, int64(2)], {"known": [1], "outputs": [True] * 2, "types": [1, 7]}),
    ("ReverseSequence", [np.zeros((4, 0), np.float32), np.zeros(0, np.int64)], {}),
    ("DepthToSpace", [np.zeros((0, 4, 2, 2), np.float32)], {"blocksize": 2}),
    (
        "Resize",
        [np.zeros((0, 1, 2, 2), np.float32), None, np.array([1, 1, 2, 2], np.float32)],
        {"known": [2]},
    ),
    ("GridSample", [np.zeros((0, 1, 2, 2), np.float32), np.zeros((0, 2, 2, 2), np.float32)], {}),
    *(
        (name, [NONE], {"axis": axis, "opset": opset})
        for name in ("Softmax", "LogSoftmax", "Hardmax")
        for axis in (0, 1)
        for opset in (11, 13)
    ),
    ("Flatten", [NONE], {}),
    ("Squeeze", [np.zeros((0, 1), np.float32)], {}),
    ("Expand", [np.zeros((1, 0), np.float32), int64(3, 1)], {"known": [1]}),
    ("RoiAlign", [reals(1, 2, 4, 4), np.zeros((0, 4), np.float32), np.zeros(0, np.int64)], {}),
    (
        "NonMaxSuppression",
        [np.zeros((1, 0, 4), np.float32), np.zeros((1, 2, 0), np.float32), int64(3)],
        {"known": [2], "types": [7]},
    ),
    ("Dropout", [NONE], {"outputs": [True] * 2, "types": [1, 9]}),
    ("Pad", [NONE, int64(0, 1, 0, 1)], {"known": [1], "mode": "reflect"}),
]


@pytest.mark.parametrize(("op_type", "inputs", "settings"), CASES)
def test_tensors_without_items(op_type: str, inputs: Any, settings: Any) -> None:
    compare(op_type, inputs, **settings)
