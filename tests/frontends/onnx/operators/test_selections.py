"""Operators with counted results, and regions of interest, against onnxruntime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.models import model, node, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, onnxruntime_results, reals

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


def test_order_of_counted_items() -> None:
    """An operation that would compute with invalid items is refused."""
    nodes = [node("NonZero", ["x"], ["nz"]), node("CumSum", ["nz", "one_"], ["y"])]
    weights = [weight("one_", np.array([1]))]
    made = model(nodes, [tensor("x", [3, 4])], [tensor("y", None, INT64)], weights)
    with pytest.raises(NnefError, match="data-dependent extent"):
        graph_for(made, [reals(3, 4)])
