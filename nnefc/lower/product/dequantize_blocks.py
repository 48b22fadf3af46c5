"""Lowering of `dequantize_blocks`: block-quantized weights to float32."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.kernels.product import dequantize_blocks as kernels
from nnefc.kernels.product.dequantize_blocks import DEQUANTIZE
from nnefc.lower.context import Lowering, QuantizedBlocks, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.product.operands import reads_blocks
from nnefc.support.block_formats import BLOCK_ITEMS
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS


@lowering("dequantize_blocks")
def dequantize_blocks(lower: Lowering, op: Op) -> None:
    """Dequantize consecutive blocks, unless all users are products that read the blocks."""
    value, raw = op.output, lower.data(op.inputs[0])
    users = [user for user in value.users if raw is not None and reads_blocks(user, value)]
    if users and raw is not None:
        rows = value.type.dims[-2]
        lower.set_quantized_blocks(
            value, QuantizedBlocks(raw.reshape(rows, -1), op.attributes["format"])
        )
        if len(users) == len(value.users) and not lower.graph.is_output(value):
            return
    blocks = op.output.type.volume // BLOCK_ITEMS
    tile_blocks = units_per_tile(blocks, BLOCK_ITEMS / LOOP_ITEMS_PER_NS, lower.threads)
    words = DEQUANTIZE.pack(
        x=lower.read(op.inputs[0]),
        y=lower.write(op.output),
        blocks=blocks,
        tile_blocks=tile_blocks,
    )
    kernel = kernels.dequantize(op.attributes["format"])
    lower.launch(kernel, words, ceil_div(blocks, tile_blocks))
