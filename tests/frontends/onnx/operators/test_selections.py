"""Operators with counted results, and regions of interest, against onnxruntime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.models import model, node, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import (
    Array,
    compare,
    node_model,
    onnxruntime_results,
    reals,
)

INT64 = 7
UNIQUE: Any = {"outputs": [True] * 4, "opset": 11}


def test_non_zero() -> None:
    for x in (np.round(reals(3, 4)), np.round(reals(2, 3, 4)) > 0, np.zeros((2, 3), np.float32)):
        for known in ((), (0,)):
            compare("NonZero", [x], opset=13, types=[INT64], known=known)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis: int | None) -> None:
    x, flags = reals(3, 4), np.array([True, False, True])
    more: Any = {} if axis is None else {"axis": axis}
    for known in ((), (1,)):
        compare("Compress", [x, flags], opset=9, known=known, **more)
        none = np.zeros(3, np.bool_)
        compare("Compress", [x, none], opset=9, known=known, **more)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("keeps_order", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique(dtype: Any, keeps_order: bool, axis: int | None) -> None:
    x = np.round(reals(6, 5, 1, seed=2)).astype(dtype)
    types = [1 if dtype is np.float32 else INT64, INT64, INT64, INT64]
    more: Any = {} if axis is None else {"axis": axis}
    for known in ((), (0,)):
        ordered = int(not keeps_order)
        compare("Unique", [x], types=types, known=known, sorted=ordered, **UNIQUE, **more)


def test_unique_single_item() -> None:
    types = [1, INT64, INT64, INT64]
    compare("Unique", [reals(1)], types=types, **UNIQUE)


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center: int) -> None:
    random = np.random.default_rng(0)
    boxes = random.uniform(0, 1, (2, 9, 4)).astype(np.float32)
    scores = random.uniform(0, 1, (2, 3, 9)).astype(np.float32)
    limits = [np.array([4]), np.array([0.2], np.float32), np.array([0.3], np.float32)]
    for opset in (10, 11):
        compare("NonMaxSuppression", [boxes, scores, *limits], known=[2, 3, 4], opset=opset,
                types=[INT64], center_point_box=center)  # fmt: skip
        compare("NonMaxSuppression", [boxes, scores, limits[0]], known=[2], opset=opset,
                types=[INT64])  # fmt: skip


def test_suppression_without_a_threshold_takes_all_scores() -> None:
    """The lowest score is one, and a score equal to the threshold is not above it."""
    boxes = np.array([[[i, 0, i + 2, 2] for i in range(5)]], np.float32)
    scores = np.array([[[0.25, -np.inf, 0.5, 0.75, -np.inf]]], np.float32)
    limits = [np.array([5]), np.array([0.5], np.float32), np.array([0.25], np.float32)]
    for number in (2, 3):
        given = [boxes, scores, *limits[:number]]
        compare("NonMaxSuppression", given, known=list(range(2, 2 + number)), opset=11,
                types=[INT64])  # fmt: skip


@pytest.mark.parametrize("threshold", [-0.1, 1.5, np.nan])
def test_overlaps_are_fractions(threshold: float) -> None:
    limits = [np.array([4]), np.array([threshold], np.float32)]
    inputs = [reals(1, 3, 4), reals(1, 1, 3), *limits]
    made = node_model("NonMaxSuppression", inputs, known=[2, 3], opset=11, types=[INT64])
    with pytest.raises(NnefError, match="iou_threshold must be in the range 0 to 1"):
        graph_for(made, inputs[:2])


REGIONS = np.array(
    [[0, 0, 9, 7], [2.3, 1.2, 5.1, 6.6], [-3, -2, 4, 5], [8, 6, 12, 11], [3, 3, 3.2, 3.1]],
    np.float32,
)
IMAGES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["", "half_pixel", "output_half_pixel"])
def test_roi_align(ratio: int, mode: str, coordinates: str) -> None:
    x = reals(2, 3, 8, 10)
    more: Any = {"coordinate_transformation_mode": coordinates} if coordinates else {}
    for count in (5, 1):
        compare("RoiAlign", [x, REGIONS[:count], IMAGES[:count]], opset=16 if more else 10,
                output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=0.75,
                mode=mode, **more)  # fmt: skip


LARGE = np.array(
    [[-30, -20, 40, 50], [-500, -700, 900, 501], [-3, 2, 4, 300], [5, 5, 2, 2], [90, 3, 99, 5]],
    np.float32,
)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("cells", [(3, 2), (1, 1), (7, 5)])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_of_regions_larger_than_the_image(
    coordinates: str, cells: tuple[int, int], mode: str
) -> None:
    settings: Any = {"coordinate_transformation_mode": coordinates, "opset": 16, "mode": mode}
    settings |= {"output_height": cells[0], "output_width": cells[1]}
    inputs = [reals(2, 3, 8, 10), LARGE, IMAGES]
    compare("RoiAlign", inputs, **settings)
    model = node_model("RoiAlign", inputs, **settings)
    y = compile_graph(graph_for(model, inputs), CompileConfig(1))(*inputs)
    (want,) = onnxruntime_results(model, inputs)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_samples_on_the_border_of_negative_images(coordinates: str) -> None:
    """A sample beyond the border has item 1 with weight 0, which is the maximum."""
    regions = np.array([[-0.8, -0.7, 1.5, 2.5], [-0.4, 1.2, 0.3, 2.0]], np.float32)
    compare("RoiAlign", [-1 - np.abs(reals(1, 2, 4, 5)), regions, IMAGES[:1].repeat(2)], opset=16,
            output_height=3, output_width=3, mode="max",
            coordinate_transformation_mode=coordinates)  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_max_roi_pool(scale: float) -> None:
    whole = np.concatenate([IMAGES[:, None], REGIONS], 1).astype(np.float32)
    for count in (5, 1):
        compare("MaxRoiPool", [reals(2, 3, 8, 10), whole[:count]], opset=13, pooled_shape=[3, 2],
                spatial_scale=scale)  # fmt: skip


def test_col2im() -> None:
    """The sum of the patches that im2col takes."""
    blocks = reals(2, 3 * 6, 9)
    compare("Col2Im", [blocks, np.array([5, 5]), np.array([2, 3])], known=[1, 2], opset=18,
            strides=[2, 2], pads=[0, 1, 2, 1], dilations=[2, 1])  # fmt: skip


def test_center_crop_pad() -> None:
    x: Array = reals(5, 6, 3)
    for shape in ((4, 9, 3), (8, 3, 1), (2, 2, 6)):
        starts = [(have - want) // 2 if have > want else 0 for have, want in zip(x.shape, shape)]
        cut = x[tuple(slice(s, s + want) for s, want in zip(starts, shape, strict=True))]
        missing = [want - have for have, want in zip(cut.shape, shape, strict=True)]
        expected = np.pad(cut, [(n // 2, n - n // 2) for n in missing])
        compare("CenterCropPad", [x, np.array(shape)], known=[1], opset=18, expected=[expected])


COUNTED: Any = {
    "squeezed": [node("Gather", ["nz", "zero"], ["row"]), node("Gather", ["table", "row"], ["y"])],
    "items": [node("Transpose", ["nz"], ["t"]), node("GatherND", ["x", "t"], ["y"])],
    "columns": [
        node("Transpose", ["nz"], ["t"]),
        node("Split", ["t"], ["a", "b"], axis=1, num_outputs=2),
        node("Concat", ["b", "a"], ["c"], axis=1),
        node("Unsqueeze", ["c", "zero_"], ["u"]),
        node("Cast", ["u"], ["f"], to=1),
        node("MatMul", ["f", "matrix"], ["y"]),
    ],
    "sums": [node("ReduceMax", ["nz", "zero_"], ["y"], keepdims=0)],
    "tiled": [
        node("Unsqueeze", ["nz", "zero_"], ["u"]),
        node("Tile", ["u", "repeats"], ["y"]),
    ],
}
"""Nodes that compute y of `nz`, the indices [2, n] of items of x [3, 4] that are not zero."""


@pytest.mark.parametrize("name", COUNTED)
def test_moves_of_counted_items(name: str) -> None:
    weights = [
        weight("zero", np.array(0)),
        weight("zero_", np.array([0])),
        weight("table", reals(3, 5)),
        weight("matrix", reals(2, 3)),
        weight("repeats", np.array([2, 3, 1])),
    ]
    nodes = [node("NonZero", ["x"], ["nz"]), *COUNTED[name]]
    kind = INT64 if name in ("sums", "tiled") else 1
    made = model(nodes, [tensor("x", [3, 4])], [tensor("y", None, kind)], weights, opset=18)
    for x in (np.round(reals(3, 4)), np.zeros((3, 4), np.float32)):
        (result,) = reference_results(graph_for(made, [x]), [x])
        np.testing.assert_allclose(result, onnxruntime_results(made, [x])[0], rtol=1e-5)


ROW = node("Gather", ["nz", "zero"], ["row"])
REALS = node("Cast", ["row"], ["f"], to=1)
COMPUTED: Any = {
    "from the end": [node("Gather", ["nz", "ends"], ["y"], axis=1)],
    "by pairs": [node("GatherND", ["nz", "pairs"], ["y"])],
    "by counted indices": [
        *(ROW, node("Mul", ["row", "zero_"], ["least"]), node("Sub", ["least", "one_"], ["ends_"])),
        node("Gather", ["row", "ends_"], ["y"]),
    ],
    "first": [node("Slice", ["nz", "zero_", "two_", "one_"], ["y"])],
    "all but the first": [node("Slice", ["nz", "one_", "most", "one_"], ["y"])],
    "last": [node("Slice", ["nz", "minus_two", "most", "one_"], ["y"])],
    "inner": [node("Slice", ["nz", "one_", "minus_one", "one_"], ["y"])],
    "largest": [ROW, REALS, node("TopK", ["f", "two_"], ["y", "at"])],
    "smallest": [ROW, REALS, node("TopK", ["f", "two_"], ["v", "y"], largest=0)],
    "joined": [
        node("Sub", ["nz", "two_"], ["m"]),
        node("Concat", ["nz", "ones", "m"], ["y"], axis=1),
    ],
    "merged": [node("Transpose", ["nz"], ["t"]), node("Reshape", ["t", "minus_one"], ["y"])],
    "shape": [node("Shape", ["nz"], ["y"])],
    "number": [ROW, node("Size", ["row"], ["n"]), node("Cast", ["n"], ["y"], to=1)],
    "filled": [ROW, node("Shape", ["row"], ["s"]), node("ConstantOfShape", ["s"], ["y"])],
    "expanded": [ROW, node("Shape", ["row"], ["s"]), node("Expand", ["two_", "s"], ["y"])],
    "range": [ROW, node("Size", ["row"], ["n"]), node("Range", ["zero", "n", "one"], ["y"])],
    "beside a range": [
        *(node("Slice", ["nz", "zero_", "seven_", "one_"], ["m"]), node("Transpose", ["m"], ["t"])),
        *(ROW, node("Size", ["row"], ["n"]), node("Min", ["n", "seven"], ["least"])),
        *(node("Range", ["zero", "least", "one"], ["r"]), node("Unsqueeze", ["r", "one_"], ["u"])),
        node("Concat", ["t", "u"], ["y"], axis=1),
    ],
    "with another bound": [
        *(ROW, node("Size", ["row"], ["n"]), node("Add", ["n", "n"], ["twice"])),
        *(node("Sub", ["twice", "n"], ["same"]), node("Range", ["zero", "same", "one"], ["r"])),
        *(node("Add", ["row", "r"], ["sum"]), node("Sub", ["r", "sum"], ["y"])),
    ],
    "convolved": [
        *(ROW, REALS, node("Reshape", ["f", "column"], ["c"])),
        node("Conv", ["c", "kernel"], ["y"]),
    ],
}
"""Nodes that compute with the number of valid items."""


@pytest.mark.parametrize("name", COMPUTED)
def test_results_depend_on_the_number_of_items(name: str) -> None:
    numbers: dict[str, Any] = {
        "zero": 0,
        "one": 1,
        "zero_": [0],
        "one_": [1],
        "two_": [2],
        "seven": 7,
    }
    numbers |= {
        "minus_one": [-1],
        "minus_two": [-2],
        "seven_": [7],
        "most": [2**63 - 1],
        "ends": [-1, 0, -2],
    }
    numbers |= {"ones": [[1], [1]], "pairs": [[0, -1], [1, 1], [-1, -2]], "column": [-1, 1, 1]}
    weights = [weight(each, np.array(number)) for each, number in numbers.items()]
    weights.append(weight("kernel", reals(2, 1, 1)))
    nodes = [node("NonZero", ["x"], ["nz"]), *COMPUTED[name]]
    kind = 1 if name in ("largest", "number", "filled", "convolved") else INT64
    made = model(nodes, [tensor("x", [3, 4])], [tensor("y", None, kind)], weights, opset=18)
    for seed in (1, 2):
        x = np.round(reals(3, 4, seed=seed))
        assert 2 < np.count_nonzero(x) < x.size
        (result,) = reference_results(graph_for(made, [x]), [x])
        np.testing.assert_allclose(result, onnxruntime_results(made, [x])[0], rtol=1e-6)


def test_numbers_are_computed_from_a_count() -> None:
    nodes = [
        *(node("NonZero", ["x"], ["nz"]), node("Shape", ["nz"], ["s"])),
        *(node("Mul", ["s", "s"], ["m"]), node("Cast", ["m"], ["y"], to=1)),
    ]
    made = model(nodes, [tensor("x", [3, 4])], [tensor("y", None, 1)])
    x = np.round(reals(3, 4))
    assert np.count_nonzero(x) < x.size
    (result,) = reference_results(graph_for(made, [x]), [x])
    np.testing.assert_array_equal(result, onnxruntime_results(made, [x])[0])


@pytest.mark.parametrize("level", [-3, 0, 3])
def test_suppression_of_chosen_boxes(level: int) -> None:
    """Of all boxes, of some, and of none."""
    random = np.random.default_rng(0)
    corners = random.uniform(0, 1, (9, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + np.float32(0.4)], 1)
    nodes = [
        *(node("Greater", ["x", "level"], ["g"]), node("NonZero", ["g"], ["nz"])),
        *(node("Squeeze", ["nz", "axis0"], ["at"]), node("Gather", ["boxes", "at"], ["b"])),
        *(node("Gather", ["x", "at"], ["s"]), node("Unsqueeze", ["b", "axis0"], ["b3"])),
        node("Unsqueeze", ["s", "axes"], ["s3"]),
        node("NonMaxSuppression", ["b3", "s3", "most", "threshold"], ["kept"]),
        *(node("Gather", ["kept", "two"], ["k"], axis=1), node("Gather", ["b", "k"], ["y"])),
    ]
    numbers: dict[str, Any] = {"axis0": [0], "axes": [0, 1], "most": [2**40], "two": 2}
    weights = [weight(each, np.array(number)) for each, number in numbers.items()]
    weights += [weight("boxes", boxes), weight("threshold", np.array([0.3], np.float32))]
    weights.append(weight("level", np.array(level, np.float32)))
    made = model(nodes, [tensor("x", [9])], [tensor("y", None, 1)], weights, opset=18)
    x = reals(9)
    (result,) = reference_results(graph_for(made, [x]), [x])
    np.testing.assert_array_equal(result, onnxruntime_results(made, [x])[0])


def test_order_of_counted_items() -> None:
    """An operation that would compute with invalid items is refused."""
    nodes = [node("NonZero", ["x"], ["nz"]), node("CumSum", ["nz", "one_"], ["y"])]
    weights = [weight("one_", np.array([1]))]
    made = model(nodes, [tensor("x", [3, 4])], [tensor("y", None, INT64)], weights)
    with pytest.raises(NnefError, match="data-dependent extent"):
        graph_for(made, [reals(3, 4)])
