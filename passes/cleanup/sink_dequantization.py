"""Move the dequantization of block-quantized weights to the products that use them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.tools.build import build
from nnefc.passes.op_queries import is_view
from nnefc.support.block_formats import BLOCK_ITEMS

NAME: Final = "dequantize_blocks"


@dataclass(frozen=True)
class SinkDequantization:
    """Move dequantization behind views and behind gathers of rows.

        %w: float32[32000,768] = dequantize_blocks(%q) {format = "q4_0", shape = [32000,768]}
        %y: float32[1,7,768] = gather(%w, %i) {axis = 0}

    becomes

        %0: uint8[1,7,432] = gather(%q, %i) {axis = 0}
        %1: uint8[7,432] = reshape(%0) {shape = [7,432]}
        %2: float32[7,768] = dequantize_blocks(%1) {format = "q4_0", shape = [7,768]}
        %y: float32[1,7,768] = reshape(%2) {shape = [1,7,768]}

    Only the gathered rows of a table of embeddings are then dequantized, and products read
    quantized weights directly.  Likewise, gathered rows of 16-bit tables are widened after the
    gather.
    """

    name: ClassVar[str] = "sink_dequantization"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            source = op.inputs[0].op if op.inputs else None
            if source is None or op.inputs[0] in op.inputs[1:]:
                continue
            result = None
            if source.name == NAME and is_view(op):
                result = _view(graph, op, source)
            elif source.name == NAME and op.name == "gather" and op.attributes["axis"] == 0:
                result = _rows(graph, op, source)
            elif source.name == "cast" and op.name == "gather" and _widens(source):
                result = _widened(graph, op, source)
            if result is not None:
                result.name = op.output.name
                graph.replace_value(op.output, result)
                graph.erase(op)
                changed = True
        return changed


def _view(graph: Graph, op: Op, source: Op) -> Value | None:
    """The view, dequantized from the blocks; None if its rows are not whole blocks."""
    shape = op.output.type.dims
    rows = shape[0] if shape else 0
    if not rows or math.prod(shape[1:]) % BLOCK_ITEMS:
        return None
    return _dequantized(graph, op, source, source.inputs[0], shape)


def _rows(graph: Graph, op: Op, source: Op) -> Value:
    """The gathered rows, dequantized after the gather."""
    blocks, indices = source.inputs[0], op.inputs[1]
    row = source.output.type.dims[1:]
    chosen = _before(graph, op, "gather", [blocks, indices], axis=0)
    wide = _dequantized(graph, op, source, chosen, (indices.type.volume, *row))
    return _before(graph, op, "reshape", [wide], shape=op.output.type.dims)


def _widens(cast: Op) -> bool:
    """Whether a cast converts 16-bit floats to float32."""
    return cast.inputs[0].type.dtype.is_half and cast.output.type.dtype is DType.FLOAT32


def _widened(graph: Graph, op: Op, cast: Op) -> Value:
    """The gathered items, converted to float32 after the gather."""
    chosen = _before(graph, op, "gather", [cast.inputs[0], *op.inputs[1:]], **op.attributes)
    type_ = chosen.type.with_dtype(DType.FLOAT32)
    return graph.insert(Op("cast", [chosen], {}, [type_], location=op.location), op).output


def _dequantized(graph: Graph, op: Op, source: Op, blocks: Value, shape: tuple[int, ...]) -> Value:
    """`blocks` dequantized to `shape` in the format of `source`, inserted before `op`."""
    flat = (shape[0], blocks.type.volume // shape[0])
    if blocks.type.dims != flat:
        blocks = _before(graph, op, "reshape", [blocks], shape=flat)
    return _before(graph, op, NAME, [blocks], format=source.attributes["format"], shape=shape)


def _before(graph: Graph, op: Op, name: str, operands: Sequence[Value], **attributes: Any) -> Value:
    return build(graph, name, operands, attributes, before=op, location=op.location).output
