"""Weighted sums of rows of a table, which formats lack, as a loop over the regions."""

from __future__ import annotations

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal.scan import build_scan
from nnefc.ops.tools.build import emitter
from nnefc.passes.op_queries import replace


def weighted_gathers_as_loops(graph: Graph) -> None:
    """Replace `weighted_gather` by loops that gather the rows of one region in a turn."""
    for op in list(graph.ops):
        for body in op.bodies:
            weighted_gathers_as_loops(body)
        if op.name == "weighted_gather":
            replace(graph, op, [_loop(graph, op)])


def _loop(graph: Graph, op: Op) -> Value:
    table, *scanned = op.inputs
    body = Graph("turn")
    names = ("rows", "row_weights", "columns", "column_weights")
    slices = [
        body.add_input(x.type.with_shape((1, *x.type.dims[1:])), name)
        for name, x in zip(names, scanned, strict=True)
    ]
    whole = body.add_input(table.type, "table")
    body.add_output(_region(body, slices, whole, op.attributes["cells"]), "cells")
    turns = op.output.type.dims[0]
    new = build_scan(
        graph, body, [], scanned, [table], turns=turns, before=op, location=op.location
    )
    return new.output


def _region(body: Graph, slices: list[Value], table: Value, cells: tuple[int, int]) -> Value:
    """The cells [1, rows, columns, width] of one region."""
    emit = emitter(body, None, None, table.type.dtype)
    rows, row_weights, columns, column_weights = slices
    extent, width = table.type.dims
    height, length = rows.type.dims[1], columns.type.dims[1]
    both = [
        emit(
            name,
            emit("reshape", x, shape=(height, 1)),
            emit("reshape", y, shape=(1, length)),
        )
        for name, x, y in (("add", rows, columns), ("mul", row_weights, column_weights))
    ]
    where = emit("reshape", both[0], shape=(height * length,))
    where = emit("min", emit("max", where, 0), extent - 1)
    weight = emit("reshape", both[1], shape=(height * length, 1))
    items = emit("mul", emit("gather", table, where, axis=0), weight)
    items = emit("select", emit("ne", weight, 0.0), items, 0.0)
    taps = (cells[0], height // cells[0], cells[1], length // cells[1], width)
    sums = emit("sum_reduce", emit("reshape", items, shape=taps), axes=(1, 3))
    return emit("reshape", sums, shape=(1, *cells, width))
