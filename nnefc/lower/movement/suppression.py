"""Lowering of non-maximum suppression."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.kernels.reduce import suppression
from nnefc.kernels.reduce.suppression import BLOCK, SIDES, SUPPRESS
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile

CANDIDATE_NS = 100.0
"""Nanoseconds to take a box from the heap and to compare it with some selected boxes."""


@lowering("non_max_suppression")
def non_max_suppression(lower: Lowering, op: Op) -> None:
    (boxes, scores), (indices, counts) = op.inputs, op.outputs
    images, classes, extent = scores.type.dims
    room: int = op.attributes["most"]
    pitch = ceil_div(room, BLOCK) * BLOCK
    rows = images * classes
    row_block = units_per_tile(rows, extent * CANDIDATE_NS, lower.threads)
    tiles = ceil_div(rows, row_block)
    words = SUPPRESS.pack(
        boxes=lower.read(boxes),
        scores=lower.read(scores),
        indices=lower.write(indices),
        counts=lower.write(counts),
        heaps=lower.scratch(8 * extent * tiles),
        selections=lower.scratch(boxes.type.dtype.itemsize * SIDES * pitch * tiles),
        extent=extent,
        classes=classes,
        room=room,
        pitch=pitch,
        rows=rows,
        row_block=row_block,
        least_score=op.attributes["least_score"],
        iou_threshold=op.attributes["iou_threshold"],
    )
    kernel = suppression.suppress(
        str(boxes.type.dtype), str(indices.type.dtype), op.attributes["is_centered"]
    )
    lower.launch(kernel, words, tiles)
