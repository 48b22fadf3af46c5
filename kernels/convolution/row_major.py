"""Convolution of any rank as a matrix product (im2col): outputs x (channels, taps) x pixels.

Source positions are data, a table [taps, outputs] of source indices per spatial dimension.  One
kernel therefore serves every stride, dilation, padding, border mode and the transposed operation.
A tile packs the columns of some pixels piece by piece into memory of the thread and multiplies them
with the filter.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.register_tile import (
    PANEL_BYTES,
    local_bytes,
    panel_columns,
    panel_depth,
    register_tile,
    tile_height,
)
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word
from nnefc.kernels.vector.rows import copy_row

CONVOLUTION = Layout(
    "x:ref y:ref filter:ref bias:ref bias_row batch_bytes plane_bytes groups inputs outputs "
    "taps pixels width outer extents:5 pitches:5 index:ref starts:5 decode:ref "
    "last_taps runs:ref pixel_block output_block units unit_block"
)
"""Parameters of `row_major.gemm`.

- x: [batch, groups * inputs, ...], with `batch_bytes` between batch items and `plane_bytes` between
  channels
- y: [batch, groups * outputs, pixels]; filter: [groups * outputs, inputs, taps]; both dense
- bias: one item per output channel, `bias_row` bytes apart
- width: extent of the last spatial dimension; outer: number of other spatial dimensions, of output
  `extents` and input `pitches` in bytes
- index: a table [taps, outputs] of source indices per outer dimension (negative: zero), from word
  `starts`; a start of -1 means that output i reads item i
- decode: outer + 1 words per tap, its number along each spatial dimension
- last_taps, runs: taps of the last dimension; per tap the number of its first run (last_taps + 1
  words), then runs of four words: first pixel, end, source offset in bytes from the row (negative:
  zeros), step in bytes

A unit is `pixel_block` pixels of `output_block` channels of one group, a tile `unit_block` of
`units`.
"""
(
    X,
    Y,
    FILTER,
    BIAS,
    BIAS_ROW,
    BATCH_BYTES,
    PLANE_BYTES,
    GROUPS,
    INPUTS,
    OUTPUTS,
    TAPS,
    PIXELS,
    WIDTH,
    OUTER,
    EXTENTS,
    PITCHES,
    INDEX,
    STARTS,
    DECODE,
    LAST_TAPS,
    RUNS,
    PIXEL_BLOCK,
    OUTPUT_BLOCK,
    UNITS,
    UNIT_BLOCK,
) = CONVOLUTION.offsets


@cache
def _fill_columns(item: str) -> Any:
    """Helper `fill(target, pitch, source, plane, channels, count, step)`."""
    size = ITEMSIZE[item]
    load, store, kind = LOAD[item], STORE[item], NUMBER[item]
    copy = copy_row(item)

    @helper
    def fill(target, pitch, source, plane, channels, count, step):
        """Copy `count` items of `channels` planes; zeros if `source` is 0."""
        for c in range(channels):
            row = target + c * pitch
            if source == 0:
                for i in range(count):
                    store(row, i, kind(0))
            elif step == size:
                copy(row, source + c * plane, count)
            else:
                for i in range(count):
                    store(row, i, load(source + c * plane + i * step))

    return fill


@cache
def _pack_columns(item: str) -> Any:
    """Helper `pack(bases, params, x, panel, first, count, channels, j, taps)`: a panel of columns.

    Row (channel, tap) of the panel holds the items that pixels `first` to `first` + `count` - 1
    read, for `channels` planes from x on and taps j to j + `taps` - 1.
    """
    size, columns, fill = ITEMSIZE[item], panel_columns(item), _fill_columns(item)

    @helper
    def pack(bases, params, x, panel, first, count, channels, j, taps):
        plane = load_word(params + PLANE_BYTES)
        width = load_word(params + WIDTH)
        outer = load_word(params + OUTER)
        index = address(bases, params + INDEX)
        decode = address(bases, params + DECODE)
        runs = address(bases, params + RUNS)
        pieces = runs + 8 * (load_word(params + LAST_TAPS) + 1)
        pitch = taps * columns * size
        lane = 0
        while lane < count:
            row = (first + lane) // width
            begin = first + lane - row * width
            end = min(width, begin + count - lane)
            for tap in range(taps):
                words = decode + (j + tap) * (outer + 1) * 8
                base = x
                rest = row
                for d in range(outer - 1, -1, -1):
                    extent = load_word(params + EXTENTS + 8 * d)
                    above = rest // extent
                    at, source = load_word(params + STARTS + 8 * d), rest - above * extent
                    if at >= 0:
                        source = load_word(
                            index + 8 * (at + load_word(words + 8 * d) * extent + source)
                        )
                    rest = above
                    if source < 0:
                        base = 0
                    elif base != 0:
                        base += source * load_word(params + PITCHES + 8 * d)
                target = panel + (tap * columns + lane) * size
                if base == 0:
                    fill(target, pitch, 0, plane, channels, end - begin, size)
                    continue
                last = load_word(words + 8 * outer)
                for r in range(load_word(runs + 8 * last), load_word(runs + 8 * last + 8)):
                    run = pieces + 32 * r
                    low, high = max(load_word(run), begin), min(load_word(run + 8), end)
                    if low < high:
                        source, step = load_word(run + 16), load_word(run + 24)
                        at = target + (low - begin) * size
                        if source < 0:
                            fill(at, pitch, 0, plane, channels, high - low, step)
                        else:
                            from_ = base + source + (low - load_word(run)) * step
                            fill(at, pitch, from_, plane, channels, high - low, step)
            lane += end - begin

    return pack


@family()
def gemm(item: str) -> KernelFunction:
    size = ITEMSIZE[item]
    columns, depth_limit, height = panel_columns(item), panel_depth(item), tile_height()
    tile = register_tile(item, *host().tile)
    pack = _pack_columns(item)
    local = local_bytes(PANEL_BYTES)

    def convolution(bases, params, first, last):
        filter_, bias = address(bases, params + FILTER), address(bases, params + BIAS)
        x, y = address(bases, params + X), address(bases, params + Y)
        bias_row, plane = load_word(params + BIAS_ROW), load_word(params + PLANE_BYTES)
        groups, inputs = load_word(params + GROUPS), load_word(params + INPUTS)
        outputs, taps = load_word(params + OUTPUTS), load_word(params + TAPS)
        pixels = load_word(params + PIXELS)
        pixel_block = load_word(params + PIXEL_BLOCK)
        output_block = load_word(params + OUTPUT_BLOCK)
        pixel_blocks = (pixels + pixel_block - 1) // pixel_block
        output_blocks = (outputs + output_block - 1) // output_block
        # A piece of the reduction is some channels with all taps, or some taps of one channel.
        tap_step = min(taps, depth_limit)
        channel_step = max(depth_limit // taps, 1)
        packed = local()
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            p_first = t % pixel_blocks * pixel_block
            p_end = min(p_first + pixel_block, pixels)
            rest = t // pixel_blocks
            o_first = rest % output_blocks * output_block
            o_end = min(o_first + output_block, outputs)
            plane_set = rest // output_blocks
            group = plane_set % groups
            x_group = x + plane_set // groups * load_word(params + BATCH_BYTES)
            x_group += group * inputs * plane
            y_group = y + plane_set * outputs * pixels * size
            for c in range(0, inputs, channel_step):
                channels = min(channel_step, inputs - c)
                for j in range(0, taps, tap_step):
                    some = min(tap_step, taps - j)
                    depth = channels * some
                    fresh = 1 if c == 0 and j == 0 else 0
                    for p in range(p_first, p_end, columns):
                        count = min(columns, p_end - p)
                        pack(
                            bases, params, x_group + c * plane, packed, p, count, channels, j, some
                        )
                        o = o_first
                        while o < o_end:
                            some_rows = height(o_end - o)
                            channel = group * outputs + o
                            tile(
                                *(some_rows, count, depth),
                                filter_ + ((channel * inputs + c) * taps + j) * size,
                                *(inputs * taps * size, size, packed, columns * size),
                                *(y_group + (o * pixels + p) * size, pixels * size),
                                *(bias + channel * bias_row, bias_row),
                                fresh,
                            )
                            o += some_rows

    return convolution


@family(moves=True)
def columns(item: str) -> KernelFunction:
    """The im2col matrix y [columns, inputs, taps]; a column is a pixel of a group and batch item.

    Parameters as for `row_major.gemm`; a tile is `unit_block` of `units` columns.
    """
    size, load, store, kind = ITEMSIZE[item], LOAD[item], STORE[item], NUMBER[item]

    @helper
    def source(bases, params, words, row, i):
        """Byte offset in a plane of the item that output (row, i) reads at a tap, or -1."""
        index = address(bases, params + INDEX)
        outer = load_word(params + OUTER)
        offset = 0
        for d in range(outer - 1, -1, -1):
            extent = load_word(params + EXTENTS + 8 * d)
            at, place = load_word(params + STARTS + 8 * d), row % extent
            row = row // extent
            if at >= 0:
                place = load_word(index + 8 * (at + load_word(words + 8 * d) * extent + place))
            if place < 0:
                return -1
            offset += place * load_word(params + PITCHES + 8 * d)
        runs = address(bases, params + RUNS)
        pieces = runs + 8 * (load_word(params + LAST_TAPS) + 1)
        last = load_word(words + 8 * outer)
        for r in range(load_word(runs + 8 * last), load_word(runs + 8 * last + 8)):
            run = pieces + 32 * r
            if load_word(run) <= i < load_word(run + 8):
                if load_word(run + 16) < 0:
                    return -1
                return offset + load_word(run + 16) + (i - load_word(run)) * load_word(run + 24)
        return -1

    def columns(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        plane, inputs = load_word(params + PLANE_BYTES), load_word(params + INPUTS)
        taps, pixels = load_word(params + TAPS), load_word(params + PIXELS)
        width, outer = load_word(params + WIDTH), load_word(params + OUTER)
        decode = address(bases, params + DECODE)
        groups = load_word(params + GROUPS)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            pixel, group = t % pixels, t // pixels % groups
            base = x + t // pixels // groups * load_word(params + BATCH_BYTES)
            base += group * inputs * plane
            target = y + t * inputs * taps * size
            for tap in range(taps):
                words = decode + tap * (outer + 1) * 8
                offset = source(bases, params, words, pixel // width, pixel % width)
                for c in range(inputs):
                    if offset < 0:
                        store(target, c * taps + tap, kind(0))
                    else:
                        store(target, c * taps + tap, load(base + offset + c * plane))

    return columns
