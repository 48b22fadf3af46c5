"""Reshape, slices, padding, gathers and scatters against onnxruntime, in all versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, node_model, reals

INT64, BOOL = 7, 9


def int64(*items: Any) -> Array:
    return np.array(items, np.int64)


@pytest.mark.parametrize("opset", [5, 13, 14, 21])
@pytest.mark.parametrize("shape", [(0, -1), (2, 0, -1), (-1,), (3, 2, 4), (0, 0, 2, 2)])
def test_reshape(opset: int, shape: tuple[int, ...]) -> None:
    compare("Reshape", [reals(2, 3, 4), int64(*shape)], known=[1], opset=opset)


def test_reshape_without_items() -> None:
    x = np.zeros((0, 3), np.float32)
    compare("Reshape", [x, int64(3, 0, 5)], known=[1], opset=14, allowzero=1)
    compare("Reshape", [x, int64(0, 3, 1)], known=[1], opset=14)


def test_attributes_before_inputs() -> None:
    """Version 1 of some operators, which onnxruntime does not have."""
    x = reals(1, 3, 1, 4)
    compare("Reshape", [x], opset=1, shape=[0, -1], expected=[x.reshape(1, 12)])
    compare("Concat", [x, x], opset=1, expected=[np.concatenate([x, x], 1)])
    compare("Pad", [x], opset=1, paddings=[0, 1, 0, 0, 0, 0, 2, 0], mode="edge",
            expected=[np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)], "edge")])  # fmt: skip
    tiled = np.tile(x, (1, 1, 5, 1))
    five, two = np.array([5], np.float32), np.array([2], np.float32)
    compare("Tile", [x, five, two], known=[1, 2], opset=1, expected=[tiled])
    halves = np.split(x, 2, 3)
    compare("Split", [x], opset=1, axis=3, outputs=[True] * 2, expected=halves)
    sizes = np.array([1, 3], np.float32)
    compare("Split", [x, sizes], known=[1], opset=1, axis=3, outputs=[True] * 2,
            expected=np.split(x, [1], 3))  # fmt: skip
    compare("Upsample", [x], opset=1, height_scale=2.0, width_scale=3.0,
            expected=[x.repeat(2, 2).repeat(3, 3)])  # fmt: skip
    compare("Dropout", [x], opset=1, outputs=[True] * 2, is_test=1, expected=[x, np.ones_like(x)])


@pytest.mark.parametrize("opset", [7, 11])
def test_axes_as_attributes(opset: int) -> None:
    x = reals(1, 3, 1, 4)
    compare("Squeeze", [x], opset=opset)
    compare("Squeeze", [x], opset=opset, axes=[2])
    compare("Unsqueeze", [x], opset=opset, axes=[0, 3])
    compare("Flatten", [x], opset=opset, axis=2)
    compare("Split", [x], opset=opset, axis=3, split=[1, 3], outputs=[True] * 2)
    compare("Split", [x], opset=opset, axis=1, outputs=[True] * 3)
    compare("Slice", [x], opset=7, starts=[1, -3], ends=[100, -1], axes=[1, 3])
    compare("Slice", [x], opset=7, starts=[0, 1], ends=[1, 3])
    compare("Tile", [x, int64(1, 2, 3, 1)], known=[1], opset=opset)
    compare("DepthToSpace", [reals(1, 8, 2, 3)], opset=opset, blocksize=2)
    compare("SpaceToDepth", [reals(1, 2, 4, 6)], opset=opset, blocksize=2)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ((4, -1), (-100, 0), (-1, -2)),
        ((-100, 100), (100, -100), (3, -3)),
        ((2, 3), (2, 1), (1, 1)),
        ((1, -2), (2**63 - 1, -(2**63)), (2, -1)),
        ((0, 5), (-1, 2), (1, -1)),
        ((0, 5), (5, 0), (2**40, -(2**62))),
    ],
)
def test_slice(opset: int, starts: Any, ends: Any, steps: Any) -> None:
    inputs = [reals(5, 6, 2), int64(*starts), int64(*ends), int64(0, -2), int64(*steps)]
    compare("Slice", inputs, known=range(1, 5), opset=opset)


@pytest.mark.parametrize("extent", [6, 7, 2])
def test_split_in_uneven_chunks(extent: int) -> None:
    x, chunk = reals(2, extent), -(-extent // 4)
    expected = [x[:, i * chunk : (i + 1) * chunk] for i in (0, 2, 3)]
    outputs = [True, False, True, True]
    compare("Split", [x], opset=18, axis=1, num_outputs=4, outputs=outputs, expected=expected)


@pytest.mark.parametrize("number", [0, 1, 3, 1 << 62])
def test_num_outputs_of_split_is_the_number_of_outputs(number: int) -> None:
    x = reals(6)
    model = node_model("Split", [x], opset=18, num_outputs=number, outputs=[True, True])
    with pytest.raises(NnefError, match=rf"num_outputs = {number}, but the node has 2 outputs"):
        graph_for(model, [x])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(0, 1, 2, 2, 0, 1), (1, 2, 1, 0, 1, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.uint8])
def test_pad(mode: str, pads: Any, dtype: Any) -> None:
    x = np.round(reals(2, 3, 4) * 9).astype(dtype)
    inputs = [x, int64(*pads), np.array(1, dtype)]
    expected = None
    if dtype is np.bool_ or mode == "wrap" or (mode == "reflect" and max(pads) > 1):
        pairs = list(zip(pads[:3], pads[3:], strict=True))
        more: Any = {"constant_values": 1} if mode == "constant" else {}
        numpy_mode: Any = mode
        expected = [np.pad(x, pairs, numpy_mode, **more)]
    compare("Pad", inputs, known=[1, 2], opset=19, mode=mode, expected=expected)


def test_pad_with_a_computed_number() -> None:
    inputs = [reals(2, 3), int64(1, 0, 0, 2), np.array(2.5, np.float32)]
    compare("Pad", inputs, known=[1], opset=13)
    compare("Pad", [inputs[0], int64(1, 2), inputs[2], int64(-1)], known=[1, 3], opset=18)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_with_negative_numbers(mode: str) -> None:
    compare("Pad", [reals(4, 6)], opset=10, pads=[-1, 2, 1, -3], mode=mode, value=3.0)
    infinite = [reals(4, 6), int64(0, 1, 0, 0), np.array(-np.inf, np.float32)]
    compare("Pad", infinite, known=[1, 2], opset=13)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (2, 3, 1), (1, 1, 1), (0, 3, 4)])
def test_expand(shape: tuple[int, ...]) -> None:
    compare("Expand", [reals(3, 1), int64(*shape)], known=[1], opset=13,
            expected=[reals(3, 1) * np.ones(shape, np.float32)])  # fmt: skip


def test_gathers() -> None:
    x = reals(3, 4, 5)
    where = np.array([[-1, 0], [2, -3]], np.int32)
    for known in ((), (1,)):
        compare("Gather", [x, where], opset=11, axis=-1, known=known)
        compare("GatherElements", [x, int64(*[[[-1, 0, 3]] * 3] * 3)], opset=11, axis=1)
        compare("GatherND", [x, int64([0, -1], [2, 1])], opset=11, known=known)
        compare("GatherND", [x, int64([[0, 1]], [[-1, -2]], [[3, 4]])], opset=12, batch_dims=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatters(reduction: str) -> None:
    x, where = reals(3, 4), int64([0, -1], [2, 1])
    updates = reals(2, 2)
    compare("ScatterElements", [x, where, updates], opset=18, axis=1, reduction=reduction)
    compare("ScatterND", [x, where, reals(2)], opset=18, reduction=reduction)


def test_scatters_without_reduction() -> None:
    x, where, updates = reals(3, 4), int64([0, 2], [2, 1]), reals(2, 2)
    compare("Scatter", [x, where, updates], opset=9, axis=0)
    compare("ScatterElements", [x, where, updates], opset=11)
    compare("ScatterND", [x, where, reals(2)], opset=11)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("depth", [4, 1])
def test_one_hot(axis: int, depth: int) -> None:
    where = int64([0, -4, 3], [4, -5, 1])
    values = np.array([2, 7], np.float32)
    inputs = [where, np.array([depth], np.int64), values]
    expected = None
    if depth == 1:  # no index but 0 and -1 is in range
        hot = np.where(where == 0, 7, 2).astype(np.float32)
        expected = [np.expand_dims(hot, axis)]
    compare("OneHot", inputs, known=[1], opset=9, axis=axis, types=[1], expected=expected)


def test_top_k() -> None:
    x = np.round(reals(3, 7) * 2)
    pair: Any = {"outputs": [True, True], "types": [1, INT64]}
    order = np.argsort(-x, 1, kind="stable")[:, :3]
    expected = [np.take_along_axis(x, order, 1), order]
    compare("TopK", [x], opset=1, k=3, **pair, expected=expected)
    compare("TopK", [x, int64(3)], known=[1], opset=10, axis=0, **pair)
    compare("TopK", [x, int64(2)], known=[1], opset=11, largest=0, **pair)
    compare("TopK", [x, int64(0)], known=[1], opset=11, **pair)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("bounds", [(0, 10, 3), (5, -4, -2), (3, 3, 1), (4, 1, 1)])
def test_range(dtype: Any, bounds: tuple[int, ...]) -> None:
    compare("Range", [np.array(each, dtype) for each in bounds], known=range(3), opset=11)


def test_fills() -> None:
    half = np.array([2.5], np.float64)
    import onnx

    value = onnx.numpy_helper.from_array(half)
    for shape in ((2, 3), (), (0, 2)):
        compare("ConstantOfShape", [int64(*shape)], known=[0], opset=9, types=[1])
        compare("ConstantOfShape", [int64(*shape)], known=[0], opset=9, types=[11], value=value)
    for k in (-1, 0, 2, 9):
        compare("EyeLike", [reals(3, 4)], opset=9, k=k)
        compare("EyeLike", [reals(3, 4)], opset=9, k=k, dtype=INT64, types=[INT64])
        for upper in (0, 1):
            x = np.arange(24).reshape(2, 3, 4)
            compare("Trilu", [x, np.array(k)], opset=14, upper=upper)
            compare("Trilu", [x, np.array(k)], known=[1], opset=14, upper=upper)


@pytest.mark.parametrize(("batch_axis", "time_axis"), [(0, 1), (1, 0)])
def test_reverse_sequence(batch_axis: int, time_axis: int) -> None:
    x = reals(4, 4, 3)
    compare("ReverseSequence", [x, int64(1, 4, 2, 3)], opset=10, batch_axis=batch_axis,
            time_axis=time_axis)  # fmt: skip


@pytest.mark.parametrize("opset", [7, 10, 12, 13])
def test_dropout(opset: int) -> None:
    x = reals(2, 3)
    compare("Dropout", [x], opset=opset)
    if opset >= 12:
        compare("Dropout", [x], opset=opset, outputs=[True] * 2, types=[1, BOOL])


@pytest.mark.parametrize(
    ("op_type", "inputs", "known", "attributes", "rule"),
    [
        ("Reshape", [reals(2, 3), int64(4, -1)], [1], {}, "argument/reshape"),
        ("Reshape", [reals(2, 3), int64(3, 2)], [], {}, "operator/attribute"),
        ("Slice", [reals(2, 3), int64(0), int64(1), int64(2)], [1, 2, 3], {}, "operator/axis"),
        ("Slice", [reals(2), int64(0), int64(1), int64(0), int64(0)], [1, 2, 3, 4], {},
         "argument/slice"),
        ("Split", [reals(2, 3), int64(1, 3)], [1], {"axis": 1, "outputs": [True] * 2},
         "argument/split"),
        ("Pad", [reals(2, 3), int64(1, 1, 1)], [1], {}, "argument/pad"),
        ("Pad", [reals(2, 3), int64(1, 1, 1, 1)], [1], {"mode": "mirror"}, "argument/pad"),
        ("Pad", [reals(2, 3), int64(-3, 0, 0, 0)], [1], {}, "argument/pad"),
        ("Expand", [reals(2, 3), int64(4, 3)], [1], {}, "argument/expand"),
        ("Gather", [reals(2, 3), int64(2)], [1], {}, "argument/gather"),
        ("Transpose", [reals(2, 3)], [], {"perm": [0, 0]}, "argument/transpose"),
        ("Squeeze", [reals(2, 3), int64(1)], [1], {}, "argument/squeeze"),
        ("Dropout", [reals(2), np.array(0.5, np.float32), np.array(True)], [1, 2], {},
         "onnx/unsupported"),
    ],
)  # fmt: skip
def test_wrong_arguments(op_type: str, inputs: Any, known: Any, attributes: Any, rule: str) -> None:
    model = node_model(op_type, inputs, known=known, **attributes)
    given = [x for i, x in enumerate(inputs) if i not in known]
    with pytest.raises(NnefError) as caught:
        graph_for(model, given)
    assert [each.rule for each in caught.value.errors] == [rule]
