"""Helpers for kernels on channel-blocked tensors, and the kernel that clears a halo.

A tensor is [batch, blocks, plane, block], as in NeoCPU (Liu et al., 2019); see `nnefc.ir.layout`.
Parameters `x_batch` and `x_plane` are the bytes between batch items and between channel blocks.
Tables hold int32 byte offsets of pixels from the start of a plane.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.parameters import Layout
from nnefc.kernels.template import KernelFunction, family
from nnefc.kernels.vector.item_types import MOVED_AS
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, select
from nnefc.kernels.vector.llvm_types import I32, I64
from nnefc.kernels.vector.memory import WORD, address, load_word, native
from nnefc.kernels.vector.rows import fill_row

GAP_BYTES: Final = 4
"""The size of a gap, and its offset, are multiples of this, whatever the item type is."""
HALO = Layout("y:ref gaps:ref blocks plane_bytes batch_bytes count planes plane_block")
"""Parameters of `blocked.zero_halo`.

`gaps`: int64, `count` pairs of byte offset from the start of a plane and number of bytes, both
multiples of `GAP_BYTES`.  A tile is `plane_block` of `planes` (batch x blocks) planes.
"""


def _load_offset(builder: Any, table: Any) -> Any:
    pointer = builder.inttoptr(table, ir.PointerType())
    value = builder.load(pointer, typ=I32, align=4)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.sext(value, I64)


load_offset: Any = native(WORD, WORD)(_load_offset)
"""`load_offset(address)`: the int32 of a table at `address`, as a word."""


def table_offset(v: LaneBuilder, table: Any, index: Any) -> Any:
    """Item `index` (a Python number or a word) of the int32 table at a pointer, as a word."""
    step = 4 * index if isinstance(index, int) else v.builder.mul(index, v.word(4))
    return v.builder.sext(v.builder.load(v.at(table, step), typ=I32, align=4), I64)


def clamp(x: Lanes, low: Lanes, high: Lanes | None) -> Lanes:
    """x clamped to the bounds, one instruction each; NaN stays NaN."""
    x = select(low > x, low, x)
    return x if high is None else select(high < x, high, x)


@family(moves=True)
def zero_halo() -> KernelFunction:
    y_at, gaps_at, blocks_at, plane_at, batch_at, count_at, planes_at, block_at = HALO.offsets
    fill = fill_row(MOVED_AS[GAP_BYTES])

    def zero_halo(bases, params, first, last):
        y, blocks = address(bases, params + y_at), load_word(params + blocks_at)
        plane_block = load_word(params + block_at)
        end = min(last * plane_block, load_word(params + planes_at))
        gaps = address(bases, params + gaps_at)
        for p in range(first * plane_block, end):
            plane = y + p // blocks * load_word(params + batch_at)
            plane += p % blocks * load_word(params + plane_at)
            for g in range(load_word(params + count_at)):
                at = gaps + 16 * g
                fill(plane + load_word(at), load_word(at + 8) // GAP_BYTES)

    return zero_halo
