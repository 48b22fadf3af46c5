"""Non-maximum suppression of detected boxes."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.boxes import non_max_suppression
from nnefc.frontends.common.values import Operand
from nnefc.frontends.tract.registry import operator


@operator("tract_onnx")
def tract_onnx_non_max_suppression(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: bool = False,
) -> Any:
    """Rows [n, 3] of batch, class and box that remain after non-maximum suppression: by batch and
    class, best box first.

    A box is dropped if its intersection over union with a better box exceeds `iou_threshold`.  The
    result has room for all rows that may remain; the graph counts the valid ones.
    """
    most = max_output_boxes_per_class
    return non_max_suppression(
        make, boxes, scores, most, iou_threshold, score_threshold, center_point_box
    )
