"""Region-of-interest operations against formulas written out for one region."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.core.arrays import Array
from nnefc.ops.core.index_check import WrongIndex
from nnefc.ops.tools.table import operations

coordinates = st.integers(-12, 60).map(lambda i: i / 4)
counts = st.integers(1, 4)


def reference(name: str, *operands: Array, **attributes: Any) -> Array:
    found = operations()[name].reference
    assert found is not None
    return found(*operands, **attributes)


def feature_maps(*shape: int) -> Array:
    return np.random.default_rng(3).integers(-40, 40, shape) / 8


@st.composite
def regions(draw: st.DrawFn) -> tuple[Array, Array]:
    count = draw(st.integers(1, 3))
    rows = [[draw(coordinates) for _ in range(4)] for _ in range(count)]
    batch = [[draw(st.integers(0, 1))] for _ in range(count)]
    return np.array(rows), np.array(batch)


def cell(input: Array, roi: Sequence[float], i: int, j: int, size: tuple[int, int]) -> list[float]:
    """The items of one channel [H, W] that cell (i, j) covers."""
    y0, x0, y1, x1 = (math.floor(c + 0.5) for c in roi)
    ranges: list[list[int]] = []
    for k, (start, end, p) in enumerate(((y0, y1, size[0]), (x0, x1, size[1]))):
        extent = end - start
        first = start + (i, j)[k] * math.floor(extent / p)
        covered = range(first, first + math.ceil(extent / p))
        ranges.append([c for c in covered if 0 <= c < input.shape[k]])
    return [float(input[y, x]) for y in ranges[0] for x in ranges[1]]


@given(regions(), counts, counts)
def test_pooling_matches_its_formula(given: tuple[Array, Array], high: int, wide: int) -> None:
    rois, batch = given
    input = feature_maps(2, 2, 7, 9)
    average = reference("avg_roi_pool", input, rois, batch, output_size=(high, wide))
    maximum = reference("max_roi_pool", input, rois, batch, output_size=(high, wide))
    assert average.shape == maximum.shape == (len(rois), 2, high, wide)
    for n, c, i, j in np.ndindex(*average.shape):
        items = cell(input[batch[n, 0], c], rois[n].tolist(), i, j, (high, wide))
        assert maximum[n, c, i, j] == max(items, default=0.0)
        mean = sum(items) / len(items) if items else 0.0
        np.testing.assert_allclose(average[n, c, i, j], mean, rtol=1e-12, atol=1e-12)


@given(regions(), counts, counts, st.sampled_from(["symmetric", "asymmetric", "aligned"]))
def test_resampling_matches_its_formula(
    given: tuple[Array, Array], high: int, wide: int, method: str
) -> None:
    rois, batch = given
    input = feature_maps(2, 1, 7, 9)
    size = (high, wide)
    result = reference("roi_resample", input, rois, batch, output_size=size, method=method)
    for n, _, *index in np.ndindex(*result.shape):
        weights: list[dict[int, float]] = []
        for k, i in enumerate(index):
            start, end, extent = rois[n, k], rois[n, 2 + k], input.shape[2 + k]
            r, p = end - start, size[k]
            if method == "symmetric":
                at = start + (i + 0.5) * r / p - 0.5
            elif method == "asymmetric":
                at = start + i * r / p
            else:
                at = start + (i * (r - 1) / (p - 1) if p > 1 else 0.0)
            low = math.floor(at)
            line: dict[int, float] = {}
            for j, weight in ((low, low + 1 - at), (low + 1, at - low)):
                clamped = min(max(j, 0), extent - 1)
                line[clamped] = line.get(clamped, 0.0) + weight
            weights.append(line)
        items = input[batch[n, 0], 0]
        expected = sum(
            u * v * items[y, x] for y, u in weights[0].items() for x, v in weights[1].items()
        )
        np.testing.assert_allclose(result[(n, 0, *index)], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("method", "aligned"), [("symmetric", False), ("aligned", True), ("asymmetric", None)]
)
def test_resampling_the_whole_map_is_upsampling(method: str, aligned: bool | None) -> None:
    input = feature_maps(1, 3, 4, 5)
    rois, batch = np.array([[0.0, 0.0, 4.0, 5.0]]), np.array([[0]])
    result = reference("roi_resample", input, rois, batch, output_size=(8, 15), method=method)
    expected = reference(
        "multilinear_upsample", input, factor=(2, 3), method=method, border="replicate"
    )
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
    if aligned is not None:
        torch: Any = pytest.importorskip("torch")
        interpolate = torch.nn.functional.interpolate
        image = torch.tensor(input)
        expected = interpolate(image, size=(8, 15), mode="bilinear", align_corners=aligned)
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)


@given(regions(), counts, counts)
def test_align_pools_resampled_cells(given: tuple[Array, Array], high: int, wide: int) -> None:
    rois, batch = given
    input = feature_maps(2, 2, 7, 9)
    fine = reference(
        "roi_resample", input, rois, batch, output_size=(2 * high, 3 * wide), method="symmetric"
    )
    attributes = {
        "output_size": (high, wide),
        "sampling_rate": (2, 3),
        "resize_method": "symmetric",
    }
    average = reference("avg_roi_align", input, rois, batch, **attributes)
    maximum = reference("max_roi_align", input, rois, batch, **attributes)
    for n, c, i, j in np.ndindex(*average.shape):
        items = fine[n, c, 2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
        np.testing.assert_allclose(average[n, c, i, j], items.mean(), rtol=1e-12, atol=1e-12)
        assert maximum[n, c, i, j] == items.max()


@pytest.mark.parametrize("name", ["avg_roi_pool", "max_roi_pool", "roi_resample"])
def test_invalid_regions_give_finite_results(name: str) -> None:
    """Coordinates may be NaN, infinite or inverted."""
    input = feature_maps(2, 1, 4, 4)
    nan, inf = math.nan, math.inf
    rois = np.array([[nan, 0, 4, 4], [0, 0, inf, 4], [-inf, -inf, inf, inf], [1e30, 0, -1e30, 0]])
    more = {"method": "symmetric"} if name == "roi_resample" else {}
    batch = np.array([[0], [1], [0], [1]])
    result = reference(name, input, rois, batch, output_size=(2, 3), **more)
    assert np.isfinite(result).all()


@pytest.mark.parametrize("wrong", [-1, 2])
def test_a_batch_index_outside_of_the_batch_is_an_error(wrong: int) -> None:
    input, rois = feature_maps(2, 1, 4, 4), np.array([[0.0, 0, 4, 4]] * 2)
    with pytest.raises(WrongIndex, match=f"index {wrong} is not in the range 0 to 1"):
        reference("max_roi_pool", input, rois, np.array([[0], [wrong]]), output_size=(2, 3))
