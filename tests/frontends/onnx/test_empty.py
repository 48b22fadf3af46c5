"""Data movement of tensors without items against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.onnx import backend
from nnefc.support.errors import NnefError
from tests.helpers.onnx.models import model, node, tensor
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, reals

NONE = np.zeros((0, 3), np.float32)


def int64(*items: int) -> Array:
    return np.array(items, np.int64)


SELECTING: tuple[dict[str, Any], ...] = ({}, {"axis": 1}, {"axis": 1, "known": [1]})
SORTING: dict[str, Any] = {"outputs": [True] * 4, "types": [1, 7, 7, 7]}
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
    *(("Compress", [NONE, np.array([True, False, True])], settings) for settings in SELECTING),
    ("Compress", [reals(2, 3), np.zeros(0, bool)], {"axis": 1}),
    *(("Unique", [NONE], {**settings, **SORTING}) for settings in ({}, {"axis": 0}, {"axis": 1})),
    ("Unique", [np.zeros(0, np.float32)], SORTING),
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


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("shape", [(2, 0), (2, 0, 3)])
def test_slices_without_items_are_equal(shape: tuple[int, ...], ordered: int) -> None:
    """onnxruntime aborts; NumPy tells what is right."""
    x = np.zeros(shape, np.float32)
    expected: Any = np.unique(x, True, True, True, axis=0)
    settings: Any = {"axis": 0, "sorted": ordered, **SORTING}
    compare("Unique", [x], expected=[np.ravel(y) if y.size else y for y in expected], **settings)


@pytest.mark.parametrize("shape", [[0, 3], ["N", "M"]])
def test_selections_of_tensors_without_items_run(shape: list[Any]) -> None:
    nodes = [
        node("Compress", ["x", "c"], ["y"], axis=1),
        node("Unique", ["x"], ["u", "i", "j", "n"], axis=1),
    ]
    outputs = [tensor("y", None), tensor("u", None), *(tensor(name, None, 7) for name in "ijn")]
    made = model(nodes, [tensor("x", shape), tensor("c", [3], 9)], outputs)
    x = np.zeros((0, 3), np.float32)
    y, u, i, j, n = backend.run_model(made, [x, np.array([True, False, True])])
    assert (y.shape, u.shape) == ((0, 2), (0, 1))
    assert (i.tolist(), j.tolist(), n.tolist()) == ([0], [0, 0, 0], [3])


def test_selections_of_tensors_without_items_are_results_only() -> None:
    nodes = [node("Compress", ["x", "c"], ["y"], axis=1), node("Relu", ["y"], ["z"])]
    made = model(nodes, [tensor("x", [0, 3]), tensor("c", [3], 9)], [tensor("z", None)])
    with pytest.raises(NnefError, match="of which only a run tells an extent"):
        backend.prepare(made)
