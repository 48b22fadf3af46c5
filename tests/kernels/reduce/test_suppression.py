"""Non-maximum suppression against a plain float64 loop of the rule of ONNX."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.reduce.suppression import BLOCK
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, run


def corners(box: Array, is_centered: bool) -> tuple[float, ...]:
    """(x0, y0, x1, y1)."""
    a, b, c, d = (float(x) for x in box)
    if is_centered:
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    if any(math.isnan(x) for x in (a, b, c, d)):
        return (math.nan,) * 4
    return min(a, c), min(b, d), max(a, c), max(b, d)


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Intersection over union."""
    if any(math.isnan(x) for x in (*one, *other)):
        return 0.0
    width, height = (min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in range(2))
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (one, other)]
    return width * height / (sum(areas) - width * height)


def expected(
    boxes: Array, scores: Array, most: int, threshold: float, least: float, is_centered: bool
) -> tuple[Array, Array]:
    indices = np.zeros((*scores.shape[:2], most), np.int64)
    counts = np.zeros(scores.shape[:2], np.int64)
    for i, j in np.ndindex(*counts.shape):
        row, sides = scores[i, j], [corners(box, is_centered) for box in boxes[i]]
        selected: list[int] = []
        taking_part = [k for k in range(len(row)) if row[k] >= least]
        for k in sorted(taking_part, key=lambda k: -float(row[k])):
            apart = all(overlap(sides[k], sides[other]) <= threshold for other in selected)
            if apart and len(selected) < most:
                selected.append(k)
        indices[i, j, : len(selected)] = selected
        counts[i, j] = len(selected)
    return indices, counts


@examples(0.8)
@given(st.data())
def test_suppression_follows_the_rule(data: st.DataObject) -> None:
    """Whole corners make areas exact, ties frequent and some overlaps equal to the threshold."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    images, classes = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    count = data.draw(st.sampled_from([1, 2, 7, 40, 150]))
    span = data.draw(st.sampled_from([3, 8, 40]))
    boxes = random.integers(-span, span, (images, count, 4)).astype(dtype)
    scores = (random.integers(-9, 9, (images, classes, count)) / 4).astype(dtype)
    if data.draw(st.booleans()):
        scores[random.random(scores.shape) < 0.2] = np.nan
        scores[random.random(scores.shape) < 0.2] = -np.inf
        boxes[random.random(boxes.shape) < 0.05] = np.nan
    most = data.draw(st.sampled_from([1, 3, BLOCK, BLOCK + 1, count]))
    settings: Any = {
        "most": min(most, count),
        "iou_threshold": data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])),
        "least_score": data.draw(st.sampled_from([-math.inf, -1.0, 0.25])),
        "is_centered": data.draw(st.booleans()),
    }
    threads = data.draw(st.sampled_from([1, 3]))
    got = run("non_max_suppression", boxes, scores, threads=threads, **settings)
    want = expected(boxes, scores, *settings.values())
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("extent", [10.0, 0.02])
def test_many_boxes(extent: float) -> None:
    """Few and many of 1,000 boxes remain."""
    random = np.random.default_rng(1)
    low = random.uniform(0, 20, (1, 1000, 2))
    boxes = np.concatenate([low, low + extent * random.uniform(0.5, 1, low.shape)], 2)
    boxes = boxes.astype(np.float32)
    scores = random.permutation(1000).astype(np.float32).reshape(1, 1, 1000)
    got = run("non_max_suppression", boxes, scores, most=1000, iou_threshold=0.5, least_score=100.0)
    want = expected(boxes, scores, 1000, 0.5, 100.0, False)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)
