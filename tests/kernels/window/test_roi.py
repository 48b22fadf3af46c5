"""Regions of interest against naive implementations of the specification's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.helpers.kernels.one_op import Array, normal, run


def _pool(x: Array, roi: Array, outputs: tuple[int, int], kind: str) -> Array:
    """One RoI over one feature map [C, H, W]: cells of ceil(r / p) every floor(r / p)."""
    y0, x0, y1, x1 = (math.floor(v + 0.5) for v in roi)
    result = np.zeros((x.shape[0], *outputs))
    for i in range(outputs[0]):
        for j in range(outputs[1]):
            top, left = y0 + i * ((y1 - y0) // outputs[0]), x0 + j * ((x1 - x0) // outputs[1])
            cell = x[
                :,
                top : top + math.ceil((y1 - y0) / outputs[0]),
                left : left + math.ceil((x1 - x0) / outputs[1]),
            ]
            result[:, i, j] = cell.mean((1, 2)) if kind == "avg" else cell.max((1, 2))
    return result


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pooling_inside_the_map(kind: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    x = normal(1, 3, 5, 20, 30, dtype=dtype)
    start = random.uniform(0, (10, 15), (12, 2))
    rois = np.hstack([start, start + random.uniform(4, (10, 14.4), (12, 2))]).astype(dtype)
    batch = random.integers(0, 3, (12, 1)).astype(np.int32)
    got = run(f"{kind}_roi_pool", x, rois, batch, output_size=(3, 4), threads=2)
    for n in range(12):
        want = _pool(x[batch[n, 0]], rois[n], (3, 4), kind)
        np.testing.assert_allclose(got[n], want, rtol=1e-5, atol=1e-6)


def _sample(x: Array, at: tuple[float, float]) -> Array:
    """The bilinear value of a map [C, H, W] at a point, clamped to the map."""
    v, u = (min(max(p, 0.0), extent - 1.0) for p, extent in zip(at, x.shape[1:], strict=True))
    i, j = math.floor(v), math.floor(u)
    a, b = v - i, u - j
    k, m = min(i + 1, x.shape[1] - 1), min(j + 1, x.shape[2] - 1)
    upper = (1 - b) * x[:, i, j] + b * x[:, i, m]
    lower = (1 - b) * x[:, k, j] + b * x[:, k, m]
    return (1 - a) * upper + a * lower


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
def test_resampling_matches_the_formula(method: str) -> None:
    random = np.random.default_rng(0)
    x = normal(1, 2, 3, 8, 9)
    rois = np.hstack([random.uniform(-2, 5, (7, 2)), random.uniform(5, 11, (7, 2))])
    rois = rois.astype(np.float32)
    batch = random.integers(0, 2, (7, 1)).astype(np.int32)
    outputs = (4, 5)
    got = run("roi_resample", x, rois, batch, output_size=outputs, method=method)

    def position(start: float, end: float, i: int, count: int) -> float:
        if method == "symmetric":
            return start + (i + 0.5) * (end - start) / count - 0.5
        if method == "asymmetric":
            return start + i * (end - start) / count
        return start + i * (end - start - 1) / (count - 1)

    for n in range(7):
        y0, x0, y1, x1 = map(float, rois[n])
        for i in range(outputs[0]):
            for j in range(outputs[1]):
                at = position(y0, y1, i, 4), position(x0, x1, j, 5)
                want = _sample(x[batch[n, 0]].astype(np.float64), at)
                np.testing.assert_allclose(got[n, :, i, j], want, rtol=1e-5, atol=1e-5)


HOSTILE = [np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 0.0, -0.4, 1e9]


@pytest.mark.parametrize("name", ["avg_roi_pool", "max_roi_pool", "roi_resample"])
def test_no_data_reads_outside(name: str) -> None:
    """Guard pages end the process at a read outside the feature map."""
    random = np.random.default_rng(0)
    x = normal(1, 2, 2, 5, 6)
    rois = random.choice(HOSTILE, (200, 4)).astype(np.float32)
    batch = random.choice([0, 1, -1, 2, 2**31 - 1, -(2**31)], (200, 1)).astype(np.int32)
    for at_end in (True, False):
        options = {"at_end": at_end, "check_indices": False}
        got = run(name, x, rois, batch, output_size=(2, 3), **options)
        assert np.isfinite(got).all()
        assert got.min() >= min(x.min(), 0)
        assert got.max() <= max(x.max(), 0)
