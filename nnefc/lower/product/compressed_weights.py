"""Weights that products read in their stored format: 16-bit floats or quantized blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.ir import DType
from nnefc.kernels.packing.blocks_across import across_name
from nnefc.kernels.product.fixed_point import BLOCK
from nnefc.kernels.product.stored_blocks import IN_FIXED_POINT, block_bytes
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.operands import Product
from nnefc.lower.product.pack import Matrix

FEW_ROWS: Final = 16
"""Up to this many rows, weights are widened in registers instead of in memory."""


@dataclass(frozen=True, slots=True)
class CompressedWeights:
    """The second operand of a product, in panels."""

    stored: str
    """The stored format, see `nnefc.kernels.product.compressed_weights`."""
    panels: Matrix
    """`row`: bytes from block to block; `step`: bytes from panel to panel."""


def compressed_weights(lower: Lowering, product: Product) -> CompressedWeights | None:
    """The weights of a product if the kernel can read their stored format, else None."""
    b = product.b
    if product.dtype is not DType.FLOAT32 or any(b.at.batch):
        return None
    lanes = lanes_of(str(product.dtype))
    if b.blocks is not None:
        format, packing = b.blocks.format, "block_quantized"
        stored = format.removesuffix("_legacy")
        if b.blocks.is_across:
            packing, stored = "blocks_across", across_name(format)
        at = lower.packed(b.blocks.data, packing, (format, lanes), DType.UINT8)
    elif b.data is not None and DType(b.data.dtype.name).is_half:
        half = DType(b.data.dtype.name)
        stored = str(half)
        matrix = b.data.reshape(b.data.shape[-2:])
        at = lower.packed(matrix, "panels", (ceil_div(product.n, lanes), lanes), half)
    else:
        return None
    block = block_bytes(stored, lanes)
    panel = block * product.depth // BLOCK
    return CompressedWeights(stored, Matrix(at, block, panel, (0,) * len(product.batch)))


def is_direct(product: Product, weights: CompressedWeights) -> bool:
    """Whether weights go from memory to registers, without a widened panel in between."""
    exceeding = weights.stored in IN_FIXED_POINT and bool(host().byte_dot)
    few = product.m <= FEW_ROWS or exceeding
    return few and product.a.data is None and product.a.at.step == DType.FLOAT32.itemsize
