"""Non-maximum suppression, against a reference that compares box by box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.dynamic.dynamic_model import DynamicModel

Array = np.ndarray[Any, Any]

DOCUMENT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol N;
graph net( boxes, scores ) -> ( y )
{
    boxes = tract_core_external(shape = [%d, N, 4], datum_type = 'f32');
    scores = tract_core_external(shape = [%d, %d, N], datum_type = 'f32');
    y = tract_onnx_non_max_suppression(boxes, scores, max_output_boxes_per_class = %d,
        iou_threshold = %s%s);
}
"""


def model(
    folder: Path, batch: int, classes: int, most: int, overlap: float, more: str = ""
) -> DynamicModel:
    text = DOCUMENT % (batch, batch, classes, most, overlap, more)
    (folder / "graph.nnef").write_text(text)
    found = nnefc.compile(folder, threads=1)
    assert isinstance(found, DynamicModel)
    return found


def corners(box: Array, is_centered: bool) -> tuple[float, float, float, float]:
    a, b, c, d = (float(x) for x in box)
    if is_centered:
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def intersection_over_union(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    sides = [min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in range(2)]
    if min(sides) <= 0:
        return 0.0
    common = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / (sum(areas) - common)


def expected(
    boxes: Array, scores: Array, most: int, overlap: float, least: float, is_centered: bool
) -> list[list[int]]:
    rows: list[list[int]] = []
    for i, classes in enumerate(scores):
        sides = [corners(box, is_centered) for box in boxes[i]]
        for j, row in enumerate(classes):
            chosen: list[int] = []
            for k in sorted(range(len(row)), key=lambda k: -row[k]):
                apart = all(
                    intersection_over_union(sides[k], sides[other]) <= overlap for other in chosen
                )
                if row[k] > least and apart and len(chosen) < most:
                    chosen.append(k)
            rows += [[i, j, k] for k in chosen]
    return rows


def detections(batch: int, classes: int, count: int, seed: int) -> tuple[Array, Array]:
    """Random boxes, most of them overlapping, with distinct scores."""
    random = np.random.default_rng(seed)
    boxes = random.random((batch, count, 4), np.float32)
    scores = random.permutation(batch * classes * count).astype(np.float32)
    return boxes, scores.reshape(batch, classes, count) / scores.size


@pytest.mark.parametrize("is_centered", [False, True])
@pytest.mark.parametrize(
    ("batch", "classes", "most", "overlap", "least"),
    [(1, 1, 4, 0.5, None), (2, 3, 5, 0.3, 0.4), (1, 2, 100, 0.0, 0.1), (3, 1, 1, 0.7, None)],
)
def test_remaining_boxes_match_the_reference(
    tmp_path: Path,
    batch: int,
    classes: int,
    most: int,
    overlap: float,
    least: float | None,
    is_centered: bool,
) -> None:
    more = f", center_point_box = {int(is_centered)}"
    more += "" if least is None else f", score_threshold = {least}"
    suppress = model(tmp_path, batch, classes, most, overlap, more)
    for count in (1, 2, 7, 20):
        boxes, scores = detections(batch, classes, count, count)
        found = suppress(boxes, scores)
        assert found.dtype == np.int64
        limit = -1.0 if least is None else least
        want = expected(boxes, scores, most, overlap, limit, is_centered)
        assert found.tolist() == want


def test_equal_scores_and_empty_boxes(tmp_path: Path) -> None:
    """The first of boxes with equal scores wins; a box without area overlaps nothing."""
    suppress = model(tmp_path, 1, 1, 10, 0.5)
    box, point = [0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5]
    boxes = np.array([[box, box, point, point]], np.float32)
    found = suppress(boxes, np.full((1, 1, 4), 0.5, np.float32))
    assert found.tolist() == [[0, 0, 0], [0, 0, 2], [0, 0, 3]]


def test_no_boxes_remain(tmp_path: Path) -> None:
    boxes, scores = detections(1, 2, 5, 0)
    none = model(tmp_path, 1, 2, 5, 0.5, ", score_threshold = 2.0")
    assert none(boxes, scores).shape == (0, 3)
    none = model(tmp_path, 1, 2, 0, 0.5)
    assert none(boxes, scores).shape == (0, 3)


def test_shapes_must_match(tmp_path: Path) -> None:
    text = DOCUMENT % (2, 1, 1, 3, 0.5, "")
    (tmp_path / "graph.nnef").write_text(text)
    shapes = {"boxes": (2, 5, 4), "scores": (1, 1, 5)}
    with pytest.raises(NnefError, match=r"boxes \[2, 5, 4\] and scores \[1, 1, 5\] do not fit"):
        nnefc.import_model(tmp_path, shapes=shapes)
