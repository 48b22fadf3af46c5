"""Changes of layout between row-major and channel-blocked (NeoCPU: Liu et al., 2019).

Squares of channels x pixels are transposed in registers.  On the row-major side, pixels of a
channel are contiguous.  A table holds the offsets of pixels on the blocked side, so that the
kernels are independent of rows, halos and rank.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.offset_table import load_offset, table_offset
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word
from nnefc.kernels.vector.transpose import transpose
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

LAYOUT = Layout(
    "dense:ref blocked:ref offsets:ref dense_batch dense_channel blocked_batch blocked_plane "
    "channels pixels pixel_block units unit_block"
)
"""Parameters of `layout.block` and `layout.unblock`.

dense: channels of `pixels` contiguous items; `dense_batch` and `dense_channel` are the bytes
between batch items and channels.  blocked: [batch, blocks, plane, block] (`nnefc.ir.layout`);
`blocked_batch` and `blocked_plane` are the bytes between batch items and between channel blocks.
offsets: int32 [pixels], byte offsets of pixels from the start of a plane.  A unit is `pixel_block`
pixels of one channel block of one batch item, a tile `unit_block` of `units`.
"""
(
    DENSE,
    BLOCKED,
    OFFSETS,
    DENSE_BATCH,
    DENSE_CHANNEL,
    BLOCKED_BATCH,
    BLOCKED_PLANE,
    CHANNELS,
    PIXELS,
    PIXEL_BLOCK,
    UNITS,
    UNIT_BLOCK,
) = LAYOUT.offsets


def _pixel(v: Vector, blocked: Any, offsets: Any, first: Any, i: int) -> Any:
    """Pointer to pixel first + i."""
    return v.at(blocked, table_offset(v, offsets, v.builder.add(first, v.word(i))))


def _squares(v: Vector, pixels: Any) -> Any:
    """A loop over squares that cover `pixels`, at least one square; see `_first`."""
    return v.loop(0, pixels, v.lanes)


def _first(v: Vector, index: Any, pixels: Any) -> Any:
    """The first pixel of the square at `index`; the last square overlaps the one before."""
    last = v.builder.sub(pixels, v.word(v.lanes))
    return v.builder.select(v.builder.icmp_signed("<", index, last), index, last)


@cache
def block_squares(item: str, lanes: int, whole: bool) -> Any:
    """Intrinsic `block(dense, channel_bytes, channels, blocked, offsets, pixels)`.

    pixels >= lanes.  `whole`: channels >= lanes; otherwise the missing channels are zero.
    """

    @vector_intrinsic(item, lanes, 6, apart=True)
    def block(v: Vector, dense, channel_bytes, channels, blocked, offsets, pixels):
        builder = v.builder
        dense, blocked, offsets = v.pointer(dense), v.pointer(blocked), v.pointer(offsets)
        rows = [v.at(dense, builder.mul(channel_bytes, v.word(c))) for c in range(lanes)]
        steps = [v.word(v.itemsize)] * lanes
        if not whole:
            nothing = v.local(v.type)
            v.zero().store(nothing)
            there = [builder.icmp_signed("<", v.word(c), channels) for c in range(lanes)]
            rows = [builder.select(t, row, nothing) for t, row in zip(there, rows, strict=True)]
            steps = [builder.select(t, v.word(v.itemsize), v.word(0)) for t in there]
        with _squares(v, pixels) as turn:
            first = _first(v, turn.index, pixels)
            square = [
                v.load(row, builder.mul(first, step)) for row, step in zip(rows, steps, strict=True)
            ]
            for i, pixel in enumerate(transpose(v, square)):
                pixel.store(_pixel(v, blocked, offsets, first, i))

    return block


@cache
def unblock_squares(item: str, lanes: int, whole: bool) -> Any:
    """Intrinsic `unblock(dense, channel_bytes, channels, blocked, offsets, pixels)`.

    pixels >= lanes.  `whole`: channels >= lanes; otherwise `channels` channels are stored.
    """

    @vector_intrinsic(item, lanes, 6, apart=True)
    def unblock(v: Vector, dense, channel_bytes, channels, blocked, offsets, pixels):
        builder = v.builder
        dense, blocked, offsets = v.pointer(dense), v.pointer(blocked), v.pointer(offsets)
        local = v.local(ir.ArrayType(v.type, lanes))
        with _squares(v, pixels) as turn:
            first = _first(v, turn.index, pixels)
            square = [v.load(_pixel(v, blocked, offsets, first, i)) for i in range(lanes)]
            start = v.at(dense, builder.mul(first, v.word(v.itemsize)))
            rows = transpose(v, square)
            if whole:
                for c, row in enumerate(rows):
                    row.store(start, builder.mul(channel_bytes, v.word(c)))
            else:
                for c, row in enumerate(rows):
                    row.store(local, v.nbytes * c)
                with v.loop(0, channels, 1) as channel:
                    row = v.load(local, builder.mul(channel.index, v.word(v.nbytes)))
                    row.store(start, builder.mul(channel.index, channel_bytes))

    return unblock


@cache
def _block_few(item: str) -> Any:
    """Helper: as `block_squares`, for fewer pixels than lanes."""
    load, store, zero = LOAD[item], STORE[item], NUMBER[item](0)

    @helper
    def block(dense, channel_bytes, channels, lanes, blocked, offsets, pixels):
        for p in range(pixels):
            pixel = blocked + load_offset(offsets + 4 * p)
            for c in range(channels):
                store(pixel, c, load(dense + c * channel_bytes, p))
            for c in range(channels, lanes):
                store(pixel, c, zero)

    return block


@cache
def _unblock_few(item: str) -> Any:
    """Helper: as `unblock_squares`, for fewer pixels than lanes."""
    load, store = LOAD[item], STORE[item]

    @helper
    def unblock(dense, channel_bytes, channels, lanes, blocked, offsets, pixels):
        for p in range(pixels):
            pixel = blocked + load_offset(offsets + 4 * p)
            for c in range(channels):
                store(dense + c * channel_bytes, p, load(pixel, c))

    return unblock


def _kernel(
    item: str, lanes: int, squares: Callable[[str, int, bool], Any], few: Any
) -> KernelFunction:
    size = ITEMSIZE[item]
    some, whole = squares(item, lanes, False), squares(item, lanes, True)

    def convert(bases, params, first, last):
        dense, blocked = address(bases, params + DENSE), address(bases, params + BLOCKED)
        offsets = address(bases, params + OFFSETS)
        dense_channel = load_word(params + DENSE_CHANNEL)
        channels, pixels = load_word(params + CHANNELS), load_word(params + PIXELS)
        pixel_block = load_word(params + PIXEL_BLOCK)
        blocks = (channels + lanes - 1) // lanes
        pieces = (pixels + pixel_block - 1) // pixel_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            begin, plane = u % pieces * pixel_block, u // pieces
            n, block = plane // blocks, plane % blocks
            here = dense + n * load_word(params + DENSE_BATCH)
            here += block * lanes * dense_channel + begin * size
            there = blocked + n * load_word(params + BLOCKED_BATCH)
            there += block * load_word(params + BLOCKED_PLANE)
            table = offsets + 4 * begin
            count, left = min(pixel_block, pixels - begin), channels - block * lanes
            if count < lanes:
                few(here, dense_channel, min(left, lanes), lanes, there, table, count)
            elif left >= lanes:
                whole(here, dense_channel, left, there, table, count)
            else:
                some(here, dense_channel, left, there, table, count)

    return convert


@family(moves=True)
def block(item: str, lanes: int) -> KernelFunction:
    """Row-major to blocks of `lanes` channels; padding channels of the last block become zero."""
    return _kernel(item, lanes, block_squares, _block_few(item))


@family(moves=True)
def unblock(item: str, lanes: int) -> KernelFunction:
    """Blocks of `lanes` channels to row-major."""
    return _kernel(item, lanes, unblock_squares, _unblock_few(item))
