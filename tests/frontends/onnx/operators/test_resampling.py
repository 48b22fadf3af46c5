"""Resize, Upsample and GridSample against onnxruntime and PyTorch, in all versions and modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, node_model, reals

NONE = np.zeros(0, np.float32)
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def factors(*items: float) -> Array:
    return np.array(items, np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 0.5, 0.6), (1, 1, 2, 0.6)])
def test_scales_only(mode: str, scales: Any) -> None:
    x = reals(1, 2, 5, 7)
    if min(scales) >= 1:
        compare("Upsample", [x], opset=7, scales=[float(s) for s in scales], mode=mode)
        compare("Upsample", [x, factors(*scales)], known=[1], opset=9, mode=mode)
    compare("Resize", [x, factors(*scales)], known=[1], opset=10, mode=mode)


@pytest.mark.parametrize("opset", [11, 13, 19])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(opset: int, coordinates: str, mode: str) -> None:
    x = reals(1, 2, 5, 10)
    how: Any = {"mode": mode, "coordinate_transformation_mode": coordinates, "opset": opset}
    # other extents are fractions with align_corners, which onnxruntime rounds before it divides
    scales = factors(1, 1, 1.6, 0.6)
    compare("Resize", [x, NONE, scales], known=[1, 2], **how)
    sizes = np.array([1, 2, 3, 9])
    compare("Resize", [x, NONE, NONE, sizes], known=[1, 2, 3], **how)


@pytest.mark.parametrize(("extent", "scale"), [(5, 2.6), (10, 0.7), (3, 1 / 3), (9, 1.1)])
@pytest.mark.parametrize("opset", [10, 13])
def test_extents_are_products_in_float32(opset: int, extent: int, scale: float) -> None:
    inputs = [reals(1, 1, 2, extent), factors(1, 1, 2, scale)]
    if opset > 10:
        inputs.insert(1, NONE)
    (y,) = compare("Resize", inputs, known=[len(inputs) - 1], opset=opset)
    wanted = math.floor(np.float32(extent) * np.float32(scale))
    assert y.shape == (1, 1, 4, wanted)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_nearest_items(rounding: str, dtype: Any) -> None:
    x = np.round(reals(1, 2, 5, 7) * 50).astype(dtype)
    inputs = [x, NONE, NONE, np.array([1, 2, 10, 3])]
    compare("Resize", inputs, known=[1, 2, 3], opset=13, nearest_mode=rounding)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, coordinates: str, exclude: int) -> None:
    inputs = [reals(1, 2, 10, 15), NONE, factors(1, 1, 0.4, 0.6)]
    compare("Resize", inputs, known=[1, 2], opset=18, mode=mode, antialias=1,
            coordinate_transformation_mode=coordinates, exclude_outside=exclude)  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [(0.2, 0.1, 0.9, 0.7), (-0.3, 0.1, 0.5, 1.4)])
def test_crop_and_resize(mode: str, roi: Any) -> None:
    whole = factors(0, 0, *roi[:2], 1, 1, *roi[2:])
    inputs = [reals(1, 2, 6, 7), whole, NONE, np.array([1, 2, 4, 9])]
    compare("Resize", inputs, known=[1, 2, 3], opset=13, mode=mode, extrapolation_value=5.0,
            coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_crop_and_antialias(mode: str, exclude: int) -> None:
    """The filter is as wide as for the whole image; a bound may be an item exactly."""
    x = reals(1, 2, 6, 8)
    how: Any = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    for roi in ((0.1, 0.2, 0.9, 0.8), (-0.1, 0.2, 0.9, 1.2)):
        whole = factors(0, 0, *roi[:2], 1, 1, *roi[2:])
        for inputs in (
            [x, whole, factors(1, 1, 0.5, 0.75)],
            [x, whole, NONE, np.array([1, 2, 9, 5])],
        ):
            compare("Resize", inputs, known=list(range(1, len(inputs))), opset=18,
                    coordinate_transformation_mode="tf_crop_and_resize",
                    extrapolation_value=7.0, **how)  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_antialiased_integers_are_rounded(mode: str, dtype: Any) -> None:
    """After each axis; onnxruntime has weights of 22 bits for bytes."""
    x = np.random.default_rng(3).integers(0, 256, (1, 2, 10, 12)).astype(dtype)
    (y,) = compare("Resize", [x, NONE, factors(1, 1, 0.5, 0.25)], known=[1, 2], opset=18,
                   mode=mode, antialias=1, atol=0.0 if dtype == np.int32 else 1.0)  # fmt: skip
    assert y.shape == (1, 2, 5, 3)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_sizes_of_some_axes(policy: str) -> None:
    inputs = [reals(1, 2, 6, 7), None, None, np.array([9, 5])]
    compare("Resize", inputs, known=[3], opset=18, axes=[3, 2], mode="linear",
            keep_aspect_ratio_policy=policy)  # fmt: skip


@pytest.mark.parametrize("opset", [16, 20])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(opset: int, mode: str, padding: str, align: int) -> None:
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode) if opset < 20 else mode
    how: Any = {"opset": opset, "mode": name, "padding_mode": padding, "align_corners": align}
    compare("GridSample", [reals(2, 3, 4, 5), reals(2, 3, 2, 2)], **how)
    if opset == 20 and mode != "cubic":
        compare("GridSample", [reals(1, 2, 3, 4, 5), reals(1, 2, 3, 2, 3)], **how)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_of_rows(mode: str) -> None:
    """A row is a plane of one row."""
    x, grid = reals(2, 3, 5), reals(2, 4, 1)
    plane = np.concatenate([grid, np.zeros_like(grid)], 2)[:, None]
    (expected,) = compare("GridSample", [x[:, :, None], plane], opset=20, mode=mode)
    compare("GridSample", [x, grid], opset=20, mode=mode, expected=[expected[:, :, 0]])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_cubic_samples_of_volumes(padding: str, align: int) -> None:
    """Against the reference of the package `onnx`; onnxruntime has planes only.

    The reference clamps coordinates to the border, onnxruntime the items that it reads.  The latter
    is what the reference computes in a volume with a wide border.
    """
    x, grid = reals(2, 2, 3, 4, 5), 1.3 * reals(2, 2, 3, 2, 3)
    how: Any = {"opset": 20, "mode": "cubic", "padding_mode": padding, "align_corners": align}
    inputs, settings = [x, grid], how
    if padding == "border":
        border, extents = 9, np.array(x.shape[:1:-1])
        at = ((grid + 1) * (extents - 1) if align else (grid + 1) * extents - 1) / 2
        wide = np.pad(x, [(0, 0), (0, 0), *[(border, border)] * 3], "edge")
        moved = 2 * (at + border) / (extents + 2 * border - 1) - 1
        inputs = [wide, moved.astype(np.float32)]
        settings = how | {"align_corners": 1}
    evaluator: Any = ReferenceEvaluator(node_model("GridSample", inputs, **settings))
    expected = evaluator.run(None, {f"x{i}": each for i, each in enumerate(inputs)})
    compare("GridSample", [x, grid], expected=expected, **how)


@pytest.mark.parametrize(
    ("op_type", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10), ("Resize", 13)]
)
def test_there_is_a_scale_for_each_axis(op_type: str, opset: int) -> None:
    x, scales = reals(1, 2, 4, 4), np.ones(3, np.float32)
    inputs: list[Any] = [x, scales] if opset < 11 else [x, None, scales]
    attributes: dict[str, Any] = {}
    if opset == 7:
        inputs, attributes = [x], {"scales": [1.0] * 3}
    known = tuple(range(1, len(inputs)))[-1:]
    model = node_model(op_type, inputs, opset=opset, known=known, **attributes)
    with pytest.raises(NnefError, match="3 scales or sizes"):
        graph_for(model, [x])


@given(st.lists(st.integers(2, 5), min_size=2, max_size=3), st.integers(1, 3), st.booleans())
def test_affine_grids(extents: list[int], batch: int, aligned: bool) -> None:
    rank = len(extents)
    inputs = [reals(batch, rank, rank + 1), np.array([batch, 2, *extents])]
    compare("AffineGrid", inputs, align_corners=int(aligned), opset=20, known=(1,))


@pytest.mark.parametrize("extents", [(1, 3), (4, 1, 2)])
def test_affine_grids_of_one_pixel(extents: tuple[int, ...]) -> None:
    """Aligned corners of one pixel: onnxruntime returns 1, the standard's function divides by 0."""
    rank = len(extents)
    theta, size = np.eye(rank, rank + 1, dtype=np.float32)[None], np.array([1, 1, *extents])
    compare("AffineGrid", [theta, size], opset=20, known=(1,))
    model = node_model("AffineGrid", [theta, size], opset=20, known=(1,), align_corners=1)
    (y,) = reference_results(graph_for(model, [theta]), [theta])
    axes = [np.linspace(-1, 1, n, dtype=np.float32) for n in extents]
    expected = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1)[None]
    np.testing.assert_allclose(y, expected, atol=1e-6)
