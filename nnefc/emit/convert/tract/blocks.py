"""Write matrices in blocks of 32 codes: products and gathers of the dialect read them."""

from __future__ import annotations

from typing import Final

from nnefc.emit.convert.block_weights import blocks_of
from nnefc.emit.convert.tract.operations import HANDLERS, invocation
from nnefc.emit.convert.tract.writer import Handler, TractWriter, Unsupported
from nnefc.ir import Op


def _dequantize_blocks(w: TractWriter, op: Op) -> str:
    """The variable itself: its tensor file has the blocks."""
    source = op.inputs[0].op
    if blocks_of(op.output) is None or source is None:
        raise Unsupported("blocks that are computed are not in the dialect of tract")
    variable = w.graph.variables[source.attributes["label"].lower()]
    if variable.data is None:
        raise Unsupported(f"variable '{variable.label}' has no data")
    w.tensors[variable.label] = variable.data
    w.blocks[variable.label] = op.attributes["format"]
    return f"variable<scalar>(label = '{variable.label}', shape = {w.shape(op.output)})"


def _gather(w: TractWriter, op: Op) -> str:
    if blocks_of(op.inputs[0]) is None:
        return HANDLERS["gather"](w, op)
    text = invocation(w, op, "tract_core_gather")
    return f"{text.removesuffix(')')}, datum_type = 'f32')"


def _unless_blocks(name: str) -> Handler:
    """Views of blocks only get axes; tract has no other views of them."""

    def handler(w: TractWriter, op: Op) -> str:
        (x,) = op.inputs
        if blocks_of(op.output) is None:
            return HANDLERS[name](w, op)
        axes = [*range(op.output.type.rank - x.type.rank)]
        return f"unsqueeze({w.operand(x)}, axes = {w.literal(axes)})"

    return handler


BLOCKS: Final[dict[str, Handler]] = {
    "dequantize_blocks": _dequantize_blocks,
    "gather": _gather,
    **{name: _unless_blocks(name) for name in ("reshape", "squeeze", "unsqueeze")},
}
