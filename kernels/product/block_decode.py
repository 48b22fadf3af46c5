"""Blocks of quantized items in registers, as float32."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from llvmlite import ir

from nnefc.kernels.vector import lane_memory as memory
from nnefc.kernels.vector.builder import Vector
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I32
from nnefc.support.block_formats import BLOCK_ITEMS


def decode(builder: Any, format: str, pointer: Any) -> Lanes:
    """The 32 items of the block at `pointer`, as float32."""
    v = Vector(builder, "float32", BLOCK_ITEMS)
    # blocks lie at any even address, and so do their scales
    bits = builder.load(pointer, typ=ir.IntType(16), align=2)
    scale = convert(memory.splat(v, "float16", bits), "float32")
    if format == "q8_1":
        return convert(memory.load(v, "int8", v.at(pointer, 4)), "float32") * scale
    half = Vector(builder, "float32", BLOCK_ITEMS // 2)
    pairs = memory.load(half, "uint8", v.at(pointer, 2))
    low, high = pairs & 15, pairs >> 4
    order = range(BLOCK_ITEMS)
    if format == "q4_0_legacy":
        order = [i // 2 + BLOCK_ITEMS // 2 * (i % 2) for i in order]
    chosen = ir.Constant(ir.VectorType(I32, BLOCK_ITEMS), list(order))
    codes = Lanes(v, "int8", builder.shuffle_vector(low.value, high.value, chosen))
    return convert(codes - 8, "float32") * scale
