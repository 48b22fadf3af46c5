"""Direct convolution on channel-blocked tensors, by the register tiles of `blocked_tile`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false
# (numba is untyped)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnefc.kernels.convolution import depthwise
from nnefc.kernels.executor import chain
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.movement import layout
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import FILLED, FIRST, LAST, TAP_BYTES, Half, cover, panel_width
from nnefc.kernels.tile.offset_table import load_offset
from nnefc.kernels.vector.item_types import ITEMSIZE, NUMBER_BYTES, check_accumulator
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, load_word

DIRECT = Layout(
    "x:ref y:ref filter:ref bias:ref residual:ref taps:ref runs:ref x_pixels:ref y_pixels:ref "
    "residual_pixels:ref x_batch x_group y_batch y_group y_plane "
    "residual_batch residual_group residual_plane "
    "groups group_tiles pixels depth run_count mode clamp factor last_channels "
    "pixel_block depth_block part_tiles units unit_block"
)
"""Parameters of `direct.convolution`.

- x, y, residual: blocked tensors, with the bytes between batch items (`_batch`), channel blocks
  (`_plane`) and groups of channels (`_group`)
- x_pixels, y_pixels, residual_pixels: int32 [pixels], byte offsets from the start of a plane
- filter: [groups, pieces of depth, group_tiles, depth_block, channels, panel_width], where the last
  piece is not padded; bias: [groups, group_tiles, panel_width]
- taps: int32 [entries, 2], a byte offset relative to a pixel, and the number of its weights within
  the piece of depth
- runs: int32 [run_count, 3 + pieces].  Pixels of a run share their taps: first pixel, end, the
  first entry in taps for each piece, and the end of the last piece's entries
- mode: RESIDUAL and BOUNDED; clamp: the lowest and the highest result, two numbers in the type
  of the accumulator in a word; factor: the bits of the float32 that sums of float16 products are
  multiplied with
- last_channels: channels of the last block of the last tile if padding channels must become zero,
  else 0

A unit is `pixel_block` pixels x `part_tiles` tiles of channels of one group and batch item, reduced
in pieces of `depth_block`; a tile of the launch is `unit_block` of `units`.
"""
(
    X,
    Y,
    FILTER,
    BIAS,
    RESIDUAL_AT,
    TAPS,
    RUNS,
    X_PIXELS,
    Y_PIXELS,
    RESIDUAL_PIXELS,
    X_BATCH,
    X_GROUP,
    Y_BATCH,
    Y_GROUP,
    Y_PLANE,
    RESIDUAL_BATCH,
    RESIDUAL_GROUP,
    RESIDUAL_PLANE,
    GROUPS,
    GROUP_TILES,
    PIXELS,
    DEPTH,
    RUN_COUNT,
    MODE,
    CLAMP,
    _,
    LAST_CHANNELS,
    PIXEL_BLOCK,
    DEPTH_BLOCK,
    PART_TILES,
    UNITS,
    UNIT_BLOCK,
) = DIRECT.offsets


def _relatives(
    item: str, accumulator: str, vectors: int, channels: int, half: Half
) -> Iterator[Kernel]:
    """Kernels that most convolutional networks use; an entry is 8 channels or a whole block."""
    lanes = lanes_of(accumulator)
    for vectors in (1, 2, 3):
        yield convolution(item, accumulator, vectors, min(lanes, 8))
    if host().halves:
        yield convolution(item, accumulator, 2, min(lanes, 8), half="filled")
    for stride in (1, 2):
        yield depthwise.convolution(item, accumulator, lanes, stride, taps=3)
    yield layout.unblock(accumulator, lanes)
    yield chain.tiles()


@family(_relatives)
def convolution(
    item: str, accumulator: str, vectors: int, channels: int, half: Half = ""
) -> KernelFunction:
    """Tiles of `vectors` channel blocks; a table entry is `channels` items of the reduction.

    `item`: type of x and of the filter; `accumulator`: type of the sums and of all other tensors,
    of at most `NUMBER_BYTES`.
    """
    check_accumulator(accumulator, NUMBER_BYTES)
    run = cover(item, accumulator, vectors, channels, half)
    width = panel_width(accumulator, vectors, half)
    step = channels * width * ITEMSIZE[item]
    return tiles_of_units(run, vectors, step, width * ITEMSIZE[accumulator])


def tiles_of_units(run: Any, vectors: int, step: int, bias_bytes: int) -> KernelFunction:
    """The kernel whose tiles `run` computes, an intrinsic with the arguments of `cover`.

    `step`: bytes of the weights of an entry; `bias_bytes`: of the bias of a tile.
    """

    def convolution(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        filter_, bias = address(bases, params + FILTER), address(bases, params + BIAS)
        residual, taps = address(bases, params + RESIDUAL_AT), address(bases, params + TAPS)
        runs, run_count = address(bases, params + RUNS), load_word(params + RUN_COUNT)
        x_pixels, y_pixels = address(bases, params + X_PIXELS), address(bases, params + Y_PIXELS)
        residual_pixels = address(bases, params + RESIDUAL_PIXELS)
        y_plane, residual_plane = load_word(params + Y_PLANE), load_word(params + RESIDUAL_PLANE)
        groups, group_tiles = load_word(params + GROUPS), load_word(params + GROUP_TILES)
        pixels, depth = load_word(params + PIXELS), load_word(params + DEPTH)
        pixel_block = load_word(params + PIXEL_BLOCK)
        depth_block = load_word(params + DEPTH_BLOCK)
        part_tiles = load_word(params + PART_TILES)
        run_bytes = 4 * (3 + (depth + depth_block - 1) // depth_block)
        parts = (group_tiles + part_tiles - 1) // part_tiles
        pixel_blocks = (pixels + pixel_block - 1) // pixel_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        last_channels = load_word(params + LAST_CHANNELS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            part, rest = u % parts, u // parts
            p = rest % pixel_blocks * pixel_block
            count = min(pixel_block, pixels - p)
            rest = rest // pixel_blocks
            group, n = rest % groups, rest // groups
            source = x + n * load_word(params + X_BATCH) + group * load_word(params + X_GROUP)
            begin = part * part_tiles
            end = min(begin + part_tiles, group_tiles)
            target = y + n * load_word(params + Y_BATCH) + group * load_word(params + Y_GROUP)
            other = residual + n * load_word(params + RESIDUAL_BATCH)
            other += group * load_word(params + RESIDUAL_GROUP)
            for k in range(0, depth, depth_block):
                some = min(depth_block, depth - k)
                mode = 0
                if k == 0:
                    mode += FIRST
                if k + some == depth:
                    mode += LAST + load_word(params + MODE)
                panels = filter_ + (group * depth + k) * group_tiles * step
                piece = 8 + k // depth_block * 4
                for o in range(begin, end):
                    filled = 0
                    if last_channels > 0 and group + 1 == groups and o + 1 == group_tiles:
                        filled = FILLED
                    for r in range(run_count):
                        record = runs + r * run_bytes
                        low = max(load_offset(record), p)
                        high = min(load_offset(record + 4), p + count)
                        entry = load_offset(record + piece)
                        entries = load_offset(record + piece + 4) - entry
                        if low < high and (entries > 0 or mode > 0):
                            run(
                                *(high - low, entries),
                                *(taps + TAP_BYTES * entry, source, x_pixels + 4 * low),
                                panels + o * some * step,
                                *(target + o * vectors * y_plane, y_pixels + 4 * low, y_plane),
                                bias + (group * group_tiles + o) * bias_bytes,
                                other + o * vectors * residual_plane,
                                *(residual_pixels + 4 * low, residual_plane),
                                *(mode + filled, params + CLAMP, last_channels),
                            )

    return convolution
