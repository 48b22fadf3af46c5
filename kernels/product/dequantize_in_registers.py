"""Decodes a block of quantized items to float32 in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes, shuffle_two
from nnefc.kernels.vector.llvm_types import I8, I16, I32
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.support.block_formats import BLOCK_FORMATS, BLOCK_ITEMS


def decode(builder: Any, format: str, pointer: Any) -> Lanes:
    """The 32 items of the block at `pointer`, as float32."""
    v, kind = Vector(builder, "float32", BLOCK_ITEMS), BLOCK_FORMATS[format]
    if kind.scale == "float16":
        # blocks lie at any even address, and so do their scales
        bits = builder.load(pointer, typ=I16, align=2)
        scale = convert(v.of("float16").splat(bits), "float32")
    else:
        scale = v.of("int32").splat(builder.load(pointer, typ=I32, align=1)).from_bits()
    place, signed = v.at(pointer, kind.codes_at), v.of("int8")
    if kind.bits == 8:
        codes = signed.load(place)
    else:
        pairs = Vector(builder, "uint8", BLOCK_ITEMS // 2).load(place)
        low, high = pairs & 15, pairs >> 4
        order = range(BLOCK_ITEMS)
        if format == "q4_0_legacy":
            order = [i // 2 + BLOCK_ITEMS // 2 * (i % 2) for i in order]
        codes = signed.value(shuffle_two(low, high, v, order).value)
    if kind.has_zero:
        byte = builder.load(v.at(pointer, kind.scale_bytes), typ=I8, align=1)
        codes = convert(codes, "int16") - convert(signed.splat(byte), "int16")
    elif kind.bits != 8:
        codes = codes - 8
    return convert(codes, "float32") * scale
