"""The body of the kernel that copies bytes, as vector IR."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.elementwise.parameters import COPY, IN_FLIGHT
from nnefc.kernels.target import isa
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.llvm_types import I8, I64
from nnefc.kernels.vector.vector_kernel import address, load_word


def emit_copy(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
    """Emit loops over several vectors at a time, single vectors, groups of 4 bytes, and bytes.

    Nothing is copied to the same address.
    """
    x_at, y_at, nbytes_at, tile_at = (builder.add(params, I64(at)) for at in COPY.offsets)
    x, y = address(builder, bases, x_at), address(builder, bases, y_at)
    nbytes, tile = load_word(builder, nbytes_at), load_word(builder, tile_at)
    end = builder.mul(last, tile)
    end = builder.select(builder.icmp_signed("<", end, nbytes), end, nbytes)
    begin = builder.mul(first, tile)
    end = builder.select(builder.icmp_signed("==", x, y), begin, end)  # a result in place
    register = isa.host().vector_bits // 8
    for width in (IN_FLIGHT * register, register, 4, 1):
        v = LaneBuilder(builder, width)
        size = builder.sub(end, begin)
        stop = builder.sub(end, builder.and_(size, I64(width - 1)))
        kind = ir.VectorType(I8, width)
        with v.loop(begin, stop, width) as turn:
            source, target = (v.pointer(builder.add(at, turn.index)) for at in (x, y))
            builder.store(builder.load(source, typ=kind, align=1), target, align=1)
        begin = stop
