"""Positions of items, suppression of boxes, and updates at positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.binary_search import count_before
from nnefc.frontends.common.operators.equal_rows import groups_by_first, groups_of_rows
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.operators.nonzero import nonzero_positions, with_count
from nnefc.frontends.common.values import Operand, OperatorError, scalar
from nnefc.frontends.tflite.operands import as_type_of, known_array
from nnefc.frontends.tflite.registry import ANY, NUMBERS, REALS, Integers, Node, known, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType


@operator("WHERE", types=("BOOL", *NUMBERS, "UINT8", "INT8", "UINT32"))
def where(make: OpBuilder, condition: Operand) -> Any:
    """Positions [n, rank] of the items that are not zero, in order."""
    x = condition if condition.type.rank else make.reshape(condition, (1,))
    return make.transpose(nonzero_positions(make, x), (1, 0))


@operator("UNIQUE", options="UniqueOptions", types=(*NUMBERS, "UINT8", "INT8", "INT16"))
def unique(make: OpBuilder, input: Operand, node: Node) -> Any:
    """Items in the order in which they occur first, and the number of each item among them."""
    (count,) = of_rank("unique", "input", input, 1)
    index = node.outputs[1] if len(node.outputs) > 1 else None
    if not count:
        return input, input if index is None else make.cast(input, dtype_of(index))
    groups = groups_of_rows(make, make.reshape(input, (count, 1)))
    first, inverse, _ = groups_by_first(make, *groups)
    items = with_count(make, make("gather", input, first, axis=0), 0, groups[3])
    return items, inverse if index is None else as_type_of(make, inverse, index)


@operator("BUCKETIZE", options="BucketizeOptions", types=(*NUMBERS, "FLOAT64"))
def bucketize(make: OpBuilder, input: Operand, *, boundaries: tuple[float, ...]) -> Any:
    """How many of the ascending boundaries are not above an item."""
    bounds = np.array(boundaries, np.float32)
    if not bounds.size or np.any(np.diff(bounds) < 0):
        raise OperatorError("argument/bucketize", f"boundaries = {list(boundaries)}")
    dtype = DType.FLOAT64 if input.type.dtype is DType.FLOAT64 else DType.FLOAT32
    x = make.cast(input, dtype)
    known_bounds = make.value(known_array(bounds, dtype))

    def is_before(where: Operand) -> Operand:
        return make("le", make("gather", known_bounds, where, axis=0), x)

    none = make.repeated(
        make.reshape(known_array(0, DType.INT64), (1,) * input.type.rank), input.type.dims
    )
    count = count_before(make, none, bounds.size + 1, is_before)
    return make.cast(count, DType.INT32)


@operator("DYNAMIC_UPDATE_SLICE", types=ANY)
def dynamic_update_slice(
    make: OpBuilder, input: Operand, update: Operand, start_indices: Operand
) -> Any:
    """The input with a slice replaced, which is moved inside where it would reach outside."""
    dims, size = input.type.dims, update.type.dims
    if len(dims) != len(size) or any(n > own for n, own in zip(size, dims, strict=True)):
        message = f"an update of shape {list(size)} of a tensor of shape {list(dims)}"
        raise OperatorError("tflite/shape", message)
    if 0 in size or not dims:
        return update if not dims else input
    most = known_array(np.subtract(dims, size), DType.INT64)
    first = make.reshape(make.cast(as_indices(make, start_indices), DType.INT64), (len(dims),))
    start = make("max", make("min", first, most), 0)
    grid = np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1)
    moved = make.reshape(start, (*(1,) * len(size), len(size)))
    places = make("add", known_array(grid, DType.INT64), moved)
    return make("scatter_nd", input, places, update)


def _suppressed(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    most: Integers,
    iou_threshold: Operand,
    score_threshold: Operand,
) -> tuple[Operand, Operand, int]:
    """Indices of boxes with room for all, their number, and the length of the results.

    A box is dropped if its overlap with a better one is as large as the threshold.
    """
    count, corners = of_rank("non_max_suppression", "boxes", boxes, 2)
    if corners != 4 or scores.type.dims != (count,) or len(most) != 1 or most[0] < 1 or not count:
        message = f"boxes {list(boxes.type.dims)}, scores {list(scores.type.dims)}"
        raise OperatorError("tflite/shape", f"{message}, max_output_size = {list(most)}")
    overlap = np.float32(scalar(known(iou_threshold, "iou_threshold")))
    least = np.float32(scalar(known(score_threshold, "score_threshold")))
    if not 0 <= overlap <= 1 or np.isnan(least):
        raise OperatorError("argument/non_max_suppression", f"iou_threshold = {overlap}")
    room = min(most[0], count) if overlap else 1
    indices, counts = make(
        "non_max_suppression",
        make.reshape(boxes, (1, count, 4)),
        make.reshape(scores, (1, 1, count)),
        most=room,
        iou_threshold=float(np.nextafter(overlap, np.float32(0))),
        least_score=float(np.nextafter(least, np.float32(np.inf))),
    )
    return make.reshape(indices, (room,)), make.reshape(counts, ()), most[0]


def _filled(make: OpBuilder, x: Operand, count: int) -> Operand:
    """`x` with zeros behind its items."""
    more = count - x.type.dims[0]
    zeros = known_array(np.zeros(more), x.type.dtype)
    return make("concat", [x, zeros], axis=0) if more else x


@operator("NON_MAX_SUPPRESSION_V4", types=REALS)
def non_max_suppression(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    max_output_size: Integers,
    iou_threshold: Operand,
    score_threshold: Operand,
) -> Any:
    """Indices of the boxes that remain, best first, then zeros; and their number."""
    indices, count, room = _suppressed(
        make, boxes, scores, max_output_size, iou_threshold, score_threshold
    )
    return _filled(make, make.cast(indices, DType.INT32), room), make.cast(count, DType.INT32)


@operator("NON_MAX_SUPPRESSION_V5", types=REALS)
def non_max_suppression_with_scores(
    make: OpBuilder,
    boxes: Operand,
    scores: Operand,
    max_output_size: Integers,
    iou_threshold: Operand,
    score_threshold: Operand,
    soft_nms_sigma: Operand,
) -> Any:
    """The same, and the scores of these boxes."""
    if scalar(known(soft_nms_sigma, "soft_nms_sigma")):
        raise OperatorError("tflite/unsupported", "scores that decay with the overlap")
    indices, count, room = _suppressed(
        make, boxes, scores, max_output_size, iou_threshold, score_threshold
    )
    chosen = make("gather", scores, indices, axis=0)
    is_valid = make("lt", make.iota(indices.type.dims[0]), count)
    rows = make("select", is_valid, chosen, 0.0)
    numbers = _filled(make, make.cast(indices, DType.INT32), room)
    return numbers, _filled(make, rows, room), make.cast(count, DType.INT32)
