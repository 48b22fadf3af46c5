"""Lowering of block-quantized weights."""

from __future__ import annotations

from nnefc.blocks import BLOCK_ITEMS
from nnefc.ir import Op
from nnefc.kernels.block_quantized import DEQUANTIZE
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.rates import LOOP_ITEMS_PER_NS


@lowering("dequantize_blocks")
def dequantize_blocks(lower: Lowering, op: Op) -> None:
    """Blocks one behind the other, whatever the rows."""
    blocks = op.output.type.volume // BLOCK_ITEMS
    tile_blocks = per_tile(blocks, BLOCK_ITEMS / LOOP_ITEMS_PER_NS, lower.threads)
    words = DEQUANTIZE.pack(
        x=lower.read(op.inputs[0]),
        y=lower.write(op.output),
        blocks=blocks,
        tile_blocks=tile_blocks,
    )
    kernel = Kernel("block_quantized.dequantize", (op.attributes["format"],))
    lower.launch(kernel, words, ceil_div(blocks, tile_blocks))
