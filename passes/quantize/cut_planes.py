"""Cut convolutions of codes with large planes into bands, which blocked kernels compute."""

from __future__ import annotations

from dataclasses import replace

from nnefc.ir import Graph, Op, Value
from nnefc.ops.tools.build import build
from nnefc.ops.tools.convolution import window_of
from nnefc.passes.analysis.integer_support import band_rows, long_axis


def cut_planes(graph: Graph, op: Op) -> Value:
    """Replace a `fused_code_conv` with planes that are too large by a concatenation of bands.

        %y: uint8[1,8,9000,9000] = fused_code_conv(%x, ...) {padding = [(1, 1), (1, 1)]}

    becomes

        %0: uint8[1,8,4501,9000] = slice(%x) {axes = [2], begin = [0], end = [4501]}
        %1: uint8[1,8,4500,9000] = fused_code_conv(%0, ...) {padding = [(1, 0), (1, 1)]}
        ...
        %y: uint8[1,8,9000,9000] = concat(%1, %3) {axis = 2}

    Returns its result.
    """
    rows = band_rows(op)
    if rows is None:
        return op.output
    axis = long_axis(window_of(op))
    outputs = op.output.type.dims[2 + axis]
    bands = [
        _band(graph, op, axis, range(first, min(first + rows, outputs)))
        for first in range(0, outputs, rows)
    ]
    whole = build(graph, "concat", bands, {"axis": 2 + axis}, before=op)
    whole.output.name = op.output.name
    graph.replace_value(op.output, whole.output)
    graph.erase(op)
    return whole.output


def _band(graph: Graph, op: Op, axis: int, rows: range) -> Value:
    """Some rows of the result, along a dimension of the window."""
    window = window_of(op)
    extent, (before, _) = window.input[axis], window.padding[axis]
    first = rows.start * window.stride[axis] - before
    end = (rows.stop - 1) * window.stride[axis] - before + window.dilated[axis]
    padding = list(window.padding)
    padding[axis] = (max(-first, 0), max(end - extent, 0))
    x = _rows(graph, op, op.inputs[0], axis, range(max(first, 0), min(end, extent)))
    whole = op.output.type.dims
    others = [
        _rows(graph, op, value, axis, rows) if value.type.dims == whole else value
        for value in op.inputs[1:]
    ]
    dims = (*whole[: 2 + axis], len(rows), *whole[3 + axis :])
    band = Op(
        op.name,
        [x, *others],
        {**op.attributes, "padding": tuple(padding)},
        [replace(op.output.type, shape=dims)],
        (),
        op.location,
    )
    return graph.insert(band, op).output


def _rows(graph: Graph, op: Op, value: Value, axis: int, rows: range) -> Value:
    if len(rows) == value.type.dims[2 + axis]:
        return value
    taken = {"axes": (2 + axis,), "begin": (rows.start,), "end": (rows.stop,)}
    return build(graph, "slice", [value], taken, before=op).output
