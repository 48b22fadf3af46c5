"""Decodes a block of quantized items to float32 in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes, shuffle_two
from nnefc.kernels.vector.llvm_types import I16
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.support.block_formats import BLOCK_ITEMS


def decode(builder: Any, format: str, pointer: Any) -> Lanes:
    """The 32 items of the block at `pointer`, as float32."""
    v = Vector(builder, "float32", BLOCK_ITEMS)
    # blocks lie at any even address, and so do their scales
    bits = builder.load(pointer, typ=I16, align=2)
    scale = convert(v.of("float16").splat(bits), "float32")
    if format == "q8_1":
        return convert(v.of("int8").load(v.at(pointer, 4)), "float32") * scale
    pairs = Vector(builder, "uint8", BLOCK_ITEMS // 2).load(v.at(pointer, 2))
    low, high = pairs & 15, pairs >> 4
    order = range(BLOCK_ITEMS)
    if format == "q4_0_legacy":
        order = [i // 2 + BLOCK_ITEMS // 2 * (i % 2) for i in order]
    codes = v.of("int8").value(shuffle_two(low, high, v, order).value)
    return convert(codes - 8, "float32") * scale
