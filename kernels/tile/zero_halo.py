"""The kernels that clear or fill the halo of a channel-blocked tensor.

A tensor is [batch, blocks, plane, block], as in NeoCPU (Liu et al., 2019); see `nnefc.ir.layout`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from typing import Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.item_types import MOVED_AS
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.rows import fill_row, fill_words

GAP_BYTES: Final = 4
"""The size of a gap, and its offset, are multiples of this, whatever the item type is."""
HALO = Layout("y:ref gaps:ref blocks plane_bytes batch_bytes count planes plane_block")
"""Parameters of `zero_halo.zero_halo`.

`gaps`: int64, `count` pairs of byte offset from the start of a plane and number of bytes, both
multiples of `GAP_BYTES`.  A tile is `plane_block` of `planes` (batch x blocks) planes.
"""
FILLED_HALO = Layout("y:ref gaps:ref blocks plane_bytes batch_bytes count planes plane_block word")
"""Parameters of `zero_halo.fill_halo`: those of `HALO`, and `GAP_BYTES` bytes to fill gaps with."""


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


@family(moves=True)
def fill_halo() -> KernelFunction:
    y_at, gaps_at, blocks_at, plane_at, batch_at, count_at, planes_at, block_at, word_at = (
        FILLED_HALO.offsets
    )
    fill = fill_words()

    def fill_halo(bases, params, first, last):
        y, blocks = address(bases, params + y_at), load_word(params + blocks_at)
        plane_block = load_word(params + block_at)
        end = min(last * plane_block, load_word(params + planes_at))
        gaps = address(bases, params + gaps_at)
        word = load_word(params + word_at)
        for p in range(first * plane_block, end):
            plane = y + p // blocks * load_word(params + batch_at)
            plane += p % blocks * load_word(params + plane_at)
            for g in range(load_word(params + count_at)):
                at = gaps + 16 * g
                fill(plane + load_word(at), load_word(at + 8) // GAP_BYTES, word)

    return fill_halo
