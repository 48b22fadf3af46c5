"""Blocks of quantized items in registers, and the kernel that writes them as float32."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.product.block_quantized import DEQUANTIZE, ITEMS
from nnefc.kernels.vector import lane_memory as memory
from nnefc.kernels.vector.builder import I32, I64, Vector
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.vector_kernel import address, load_word

BYTES: Final = {"q4_0": 18, "q4_0_legacy": 18, "q8_1": 36}
"""Of a block."""


def decode(builder: Any, format: str, pointer: Any) -> Lanes:
    """The 32 items of the block at `pointer`, as float32."""
    v = Vector(builder, "float32", ITEMS)
    # blocks lie at any even address, and so do their scales
    bits = builder.load(pointer, typ=ir.IntType(16), align=2)
    scale = convert(memory.splat(v, "float16", bits), "float32")
    if format == "q8_1":
        return convert(memory.load(v, "int8", v.at(pointer, 4)), "float32") * scale
    half = Vector(builder, "float32", ITEMS // 2)
    pairs = memory.load(half, "uint8", v.at(pointer, 2))
    low, high = pairs & 15, pairs >> 4
    order = range(ITEMS)
    if format == "q4_0_legacy":
        order = [i // 2 + ITEMS // 2 * (i % 2) for i in order]
    chosen = ir.Constant(ir.VectorType(I32, ITEMS), list(order))
    codes = Lanes(v, "int8", builder.shuffle_vector(low.value, high.value, chosen))
    return convert(codes - 8, "float32") * scale


def emit_dequantize(
    builder: Any, format: str, bases: Any, params: Any, first: Any, last: Any
) -> None:
    """A block a turn."""
    v = Vector(builder, "float32", ITEMS)
    x_at, y_at, blocks_at, tile_at = (builder.add(params, I64(at)) for at in DEQUANTIZE.offsets)
    x, y = (v.pointer(address(builder, bases, at)) for at in (x_at, y_at))
    blocks, tile = load_word(builder, blocks_at), load_word(builder, tile_at)
    end = builder.mul(last, tile)
    end = builder.select(builder.icmp_signed("<", end, blocks), end, blocks)
    with v.loop(builder.mul(first, tile), end, 1) as turn:
        source = v.at(x, builder.mul(turn.index, I64(BYTES[format])))
        items = decode(builder, format, source)
        memory.store(items, v.at(y, builder.mul(turn.index, I64(4 * ITEMS))))
