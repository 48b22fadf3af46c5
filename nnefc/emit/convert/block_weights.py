"""Block-quantized weights in written models: as blocks where readers take them, or as reals."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnefc.ir import Graph, Op, Value
from nnefc.ir.graph import Variable
from nnefc.ops.extended.block_quantized import dequantize_blocks
from nnefc.passes.op_queries import is_view, replace
from nnefc.support.names import unused_name


def unpack_blocks(graph: Graph, kept: Collection[str] = ()) -> None:
    """Replace variables of blocks in `graph` by variables of their float32 values.

    A value is a code of at most 9 bits times a scale, which float32 holds exactly if that is a
    float16; else it is rounded once.

    Args:
        graph: The graph, which is modified.
        kept: Formats whose blocks stay where all operations read them as `reads_blocks` says.
    """
    for op in graph.ops:
        source = op.inputs[0].op if op.name == "dequantize_blocks" else None
        if source is None or source.name != "variable":
            continue
        variable = graph.variables[source.attributes["label"].lower()]
        if variable.data is None:
            continue
        stays = op.attributes["format"] in kept and op.output.type.rank == 2
        if stays and _is_read_as_blocks(graph, op.output):
            continue
        values = dequantize_blocks(variable.data, **op.attributes).astype(np.float32)
        label = unused_name(f"{variable.label}_values", graph.variables, ignore_case=True)
        graph.variables[label.lower()] = Variable(label, op.output.type, values)
        attributes = {"shape": op.output.type.dims, "label": label}
        names = [op.output.name or variable.label]
        new = Op("variable", (), attributes, [op.output.type], names, op.location)
        replace(graph, op, graph.insert(new, op).outputs)


def _is_read_as_blocks(graph: Graph, value: Value) -> bool:
    """Whether all operations that read a matrix can read its blocks."""
    users = list(value.users)
    views = [user.output for user in users if _adds_axes(user)]
    others = [user for user in users if not _adds_axes(user)]
    return (
        not graph.is_output(value)
        and all(reads_blocks(user, value) for user in others)
        and all(_is_read_as_blocks(graph, view) for view in views)
    )


def reads_blocks(op: Op, value: Value) -> bool:
    """Whether an operation reads rows of a matrix: as the right one of a product, transposed, or
    as a table.
    """
    places = [i for i, operand in enumerate(op.inputs) if operand is value]
    if op.name == "gather":
        return places == [0] and op.attributes["axis"] == 0 and value.type.rank == 2
    if op.name == "matmul":
        is_right = places == [1] and op.output.type.rank == op.inputs[0].type.rank
        return is_right and bool(op.attributes["transposeB"])
    return op.name == "linear" and places == [1]


def blocks_of(value: Value) -> Op | None:
    """The `dequantize_blocks` of known blocks that makes a matrix, perhaps with leading extents of
    1; None for other values.
    """
    while value.op is not None and _adds_axes(value.op):
        value = value.op.inputs[0]
    op = value.op
    if op is None or op.name != "dequantize_blocks" or op.output.type.rank != 2:
        return None
    source = op.inputs[0].op
    return op if source is not None and source.name == "variable" else None


def is_block_data(op: Op) -> bool:
    """Whether an operation is a variable of bytes that only `dequantize_blocks` reads."""
    users = op.output.users if op.name == "variable" else ()
    return bool(users) and all(user.name == "dequantize_blocks" for user in users)


def _adds_axes(op: Op) -> bool:
    """Whether an operation only puts extents of 1 in front of a matrix."""
    if not is_view(op) or op.inputs[0].type.rank < 2:
        return False
    before, after = op.inputs[0].type.dims, op.output.type.dims
    return after[-2:] == before[-2:] and all(extent == 1 for extent in after[:-2])
