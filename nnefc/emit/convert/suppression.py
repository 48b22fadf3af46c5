"""Non-maximum suppression as a loop.

The operator of tract returns as many rows as remain, but other operations of the graph take tensors
of fixed extents.  That of ONNX takes float32 only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.core.spec import Emit
from nnefc.ops.internal.scan import build_scan
from nnefc.ops.tools.build import emitter
from nnefc.passes.op_queries import replace


def suppressions_as_loops(graph: Graph, only: Callable[[Op], bool] = lambda op: True) -> None:
    """Replace `non_max_suppression` by loops that select the best box of each class in a turn.

    `only`: replace the operations for which it is true.
    """
    for op in list(graph.ops):
        for body in op.bodies:
            suppressions_as_loops(body, only)
        if op.name == "non_max_suppression" and only(op):
            replace(graph, op, _loop(graph, op))


def _loop(graph: Graph, op: Op) -> list[Value]:
    """(indices [batch, classes, turns], counts [batch, classes])."""
    boxes, scores = op.inputs
    batch, classes, _ = scores.type.dims
    turns: int = op.attributes["most"]
    emit = emitter(graph, op, op.location)
    takes_part = emit("ge", scores, op.attributes["least_score"])
    body = Graph("turn")
    sides = _sides(emit, boxes, op.attributes["is_centered"])
    before = body.add_input(takes_part.type, "left")
    inner = [body.add_input(scores.type, "scores")]
    inner += [body.add_input(side.type, "side") for side in sides]
    results = _turn(body, before, inner[0], inner[1:], op.attributes["iou_threshold"])
    for name, value in zip(("left", "index", "exists"), results, strict=True):
        body.add_output(value, name)
    new = build_scan(
        graph, body, [takes_part], [], [scores, *sides], turns=turns, before=op,
        location=op.location,
    )  # fmt: skip
    _, index, exists = new.outputs
    number = emit("select", exists, emit("add", emit("mul", index, 0), 1), 0)
    counts = emit("reshape", emit("sum_reduce", number, axes=(0,)), shape=(batch, classes))
    indices = emit("mul", index, number)
    return [emit("transpose", indices, axes=(1, 2, 0)), counts]


def _turn(
    body: Graph, left: Value, scores: Value, sides: list[Value], threshold: float
) -> tuple[Value, Value, Value]:
    """The boxes that are left after a turn, its best box of each class, whether it exists."""
    emit = emitter(body, None, None, scores.type.dtype)
    batch, classes, count = scores.type.dims
    one = (1, batch, classes)
    numbers = emit("iota", count=count, dtype=DType.INT64)
    numbers = emit("reshape", numbers, shape=(1, 1, count))
    # the best score first: a box with the score -inf is selected if no other one is left
    best = emit("max_reduce", emit("select", left, scores, -math.inf), axes=(2,))
    is_best = emit("and", left, emit("eq", scores, best))
    index = emit("argmax_reduce", emit("select", is_best, 1.0, 0.0), axes=(2,))
    index = index if index.type.dtype is DType.INT64 else emit("cast", index, dtype=DType.INT64)
    exists = emit("any_reduce", left, axes=(2,))
    selected = [
        emit("gather_elements", _repeated(emit, side, (batch, classes, count)), index, axis=2)
        for side in sides
    ]
    is_dropped = emit("gt", _intersection_over_union(emit, sides, selected), threshold)
    is_dropped = emit("or", is_dropped, emit("eq", numbers, index))
    after = emit("and", left, emit("not", is_dropped))
    return after, emit("reshape", index, shape=one), emit("reshape", exists, shape=one)


def _repeated(emit: Emit, x: Value, shape: tuple[int, ...]) -> Value:
    repeats = tuple(want if have == 1 else 1 for have, want in zip(x.type.dims, shape, strict=True))
    return x if all(n == 1 for n in repeats) else emit("tile", x, repeats=repeats)


def _sides(emit: Emit, boxes: Value, is_centered: bool) -> list[Value]:
    """Lower bounds along both axes, then upper bounds, each [batch, 1, boxes]."""
    batch, count, _ = boxes.type.dims
    columns: list[Any] = [
        emit(
            "reshape",
            emit("slice", boxes, axes=(2,), begin=(i,), end=(i + 1,), stride=(1,)),
            shape=(batch, 1, count),
        )
        for i in range(4)
    ]
    if is_centered:
        halves = [emit("mul", size, 0.5) for size in columns[2:]]
        return [
            emit(name, center, half)
            for name in ("sub", "add")
            for center, half in zip(columns[:2], halves, strict=True)
        ]
    pairs = ((columns[0], columns[2]), (columns[1], columns[3]))
    return [emit(name, *pair) for name in ("min", "max") for pair in pairs]


def _intersection_over_union(emit: Emit, boxes: list[Value], others: list[Value]) -> Value:
    """Intersection over union of boxes, given by their sides; 0 where they do not intersect."""
    extents = [
        emit("sub", emit("min", upper, other_upper), emit("max", lower, other_lower))
        for lower, upper, other_lower, other_upper in zip(
            boxes[:2], boxes[2:], others[:2], others[2:], strict=True
        )
    ]
    common = emit("mul", *(emit("max", extent, 0.0) for extent in extents))
    union = emit("sub", emit("add", _area(emit, boxes), _area(emit, others)), common)
    return emit("select", emit("gt", common, 0.0), emit("div", common, union), 0.0)


def _area(emit: Emit, boxes: list[Value]) -> Value:
    sides = (emit("sub", boxes[i + 2], boxes[i]) for i in range(2))
    return emit("mul", *sides)
