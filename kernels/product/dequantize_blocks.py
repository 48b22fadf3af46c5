"""Dequantizes blocks of q4_0 or q8_1 items; `nnefc.support.block_formats` has the formats."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.dequantize_in_registers import decode
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel, address, load_word
from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_ITEMS

DEQUANTIZE = Layout("x:ref y:ref blocks tile_blocks")
"""Parameters of `dequantize_blocks.dequantize`: `blocks` consecutive blocks at x, their float32
items at y; a tile is `tile_blocks` blocks."""


@family()
def dequantize(format: str) -> KernelFunction:
    """`format`: q4_0, q4_0_legacy or q8_1."""

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        v = Vector(builder, "float32", BLOCK_ITEMS)
        x_at, y_at, blocks_at, tile_at = (builder.add(params, I64(at)) for at in DEQUANTIZE.offsets)
        x, y = (v.pointer(address(builder, bases, at)) for at in (x_at, y_at))
        blocks, tile = load_word(builder, blocks_at), load_word(builder, tile_at)
        end = builder.mul(last, tile)
        end = builder.select(builder.icmp_signed("<", end, blocks), end, blocks)
        with v.loop(builder.mul(first, tile), end, 1) as turn:
            source = v.at(x, builder.mul(turn.index, I64(BLOCK_BYTES[format])))
            items = decode(builder, format, source)
            items.store(v.at(y, builder.mul(turn.index, I64(4 * BLOCK_ITEMS))))

    return VectorKernel(emit)
