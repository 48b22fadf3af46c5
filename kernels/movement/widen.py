"""The kernel that widens blocked codes to 16 bits, for products of pairs.

Without dot products of bytes, a word of four codes becomes two words of pairs before it is
multiplied.  A convolution reads a code for every panel of its outputs and every tap, so a copy in
16 bits saves these instructions; see `nnefc.kernels.vector.dot_words`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import PAIR_ITEM
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

WIDEN = Layout("x:ref y:ref blocks x_plane y_plane x_batch y_batch items planes plane_block")
"""Parameters of `widen.planes`.

x: codes [batch, blocks, plane, block]; y: the same as int16; with the bytes between planes and
between batch items.  A plane has `items` items, a multiple of 4, in a row.  A tile is `plane_block`
of `planes` (batch x blocks) planes.
"""
_FEWEST: Final = 4
_UNROLLED: Final = 4


def _usual(item: str) -> list[Any]:
    return [planes(other) for other in ("uint8", "int8") if other != item]


@family(_usual, moves=True)
def planes(item: str) -> KernelFunction:
    """Widen codes of type `item`."""
    x_at, y_at, blocks_at, x_plane, y_plane, x_batch, y_batch, items_at, planes_at, block_at = (
        WIDEN.offsets
    )
    widen = _row(item)

    def planes(bases, params, first, last):
        x, y = address(bases, params + x_at), address(bases, params + y_at)
        blocks, items = load_word(params + blocks_at), load_word(params + items_at)
        plane_block = load_word(params + block_at)
        for p in range(first * plane_block, min(last * plane_block, load_word(params + planes_at))):
            n, c = p // blocks, p % blocks
            source = x + n * load_word(params + x_batch) + c * load_word(params + x_plane)
            target = y + n * load_word(params + y_batch) + c * load_word(params + y_plane)
            widen(source, target, items)

    return planes


@cache
def _row(item: str) -> Any:
    """Intrinsic `widen(x, y, count)` of a multiple of 4 items."""

    @vector_intrinsic(PAIR_ITEM, lanes_of(PAIR_ITEM), 3)
    def widen(v: Vector, x, y, count):
        b = v.builder
        x, y, start = v.pointer(x), v.pointer(y), v.word(0)
        for lanes, vectors in ((v.lanes, _UNROLLED), (v.lanes, 1), (_FEWEST, 1)):
            wide, step = v.resized(lanes), lanes * vectors
            stop = b.sub(count, b.urem(b.sub(count, start), v.word(step)))
            with v.loop(start, stop, step) as turn:
                for i in range(0, step, lanes):
                    index = b.add(turn.index, v.word(i))
                    codes = wide.of(item).load(v.at(x, index))
                    convert(codes, PAIR_ITEM).store(v.at(y, b.mul(index, v.word(v.itemsize))))
            start = stop

    return widen
