"""Direct convolution on channel-blocked codes, by the register tiles of `code_tile`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false
# (numba is untyped)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.blocked_tile import TAP_BYTES
from nnefc.kernels.tile.code_results import Ending
from nnefc.kernels.tile.code_tile import cover_codes
from nnefc.kernels.tile.offset_table import load_offset
from nnefc.kernels.vector.dot_words import WordKind, dot_of, word_items
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, load_word

CODES = Layout(
    "x:ref y:ref filter:ref starts:ref scale:ref bounds:ref taps:ref runs:ref x_pixels:ref "
    "y_pixels:ref residual:ref residual_pixels:ref x_batch x_group y_batch y_group y_plane "
    "residual_batch residual_group residual_plane "
    "groups group_tiles pixels depth run_count pixel_block part_tiles units unit_block"
)
"""Parameters of `direct_codes.convolution`; those of `direct.DIRECT` with the same names, and

- filter: [groups, group_tiles, depth, words, planes, panel_width] words of packed weights, see
  `nnefc.kernels.vector.dot_words`
- starts: int32 [run_count, groups, group_tiles, panel_width]: the sums of no products.  Runs have
  starts of their own, because the border taps that they leave out are products of a zero point
- scale: [groups, group_tiles, terms, panel_width] and bounds: see `nnefc.kernels.tile.code_results`
- runs: int32 [run_count, 4]: first pixel, end, first entry in taps, end of the entries
"""
(
    X,
    Y,
    FILTER,
    STARTS,
    SCALE,
    BOUNDS,
    TAPS,
    RUNS,
    X_PIXELS,
    Y_PIXELS,
    RESIDUAL,
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
    PIXEL_BLOCK,
    PART_TILES,
    UNITS,
    UNIT_BLOCK,
) = CODES.offsets
RUN_BYTES = 16


@family()
def convolution(
    ending: Ending, vectors: int, channels: int, kind: WordKind = "codes", overlaps: bool = False
) -> KernelFunction:
    """Tiles of `vectors` channel blocks; a table entry is `channels` codes of the reduction.

    x has codes of the type `Isa.codes`, or as int16 if `kind` is "pairs"; `overlaps`: see
    `cover_codes`.
    """
    words = channels // word_items(kind)
    run = cover_codes(ending, vectors, words, kind, overlaps=overlaps)
    panel_bytes = 4 * vectors * lanes_of("int32")
    entry_bytes = words * dot_of(kind).planes * panel_bytes
    scale_bytes = ending.terms * panel_bytes

    def convolution(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        filter_, starts = address(bases, params + FILTER), address(bases, params + STARTS)
        scale, bounds = address(bases, params + SCALE), address(bases, params + BOUNDS)
        taps, runs = address(bases, params + TAPS), address(bases, params + RUNS)
        x_pixels, y_pixels = address(bases, params + X_PIXELS), address(bases, params + Y_PIXELS)
        y_plane, run_count = load_word(params + Y_PLANE), load_word(params + RUN_COUNT)
        residual = address(bases, params + RESIDUAL)
        residual_pixels = address(bases, params + RESIDUAL_PIXELS)
        residual_plane = load_word(params + RESIDUAL_PLANE)
        groups, group_tiles = load_word(params + GROUPS), load_word(params + GROUP_TILES)
        pixels, depth = load_word(params + PIXELS), load_word(params + DEPTH)
        pixel_block, part_tiles = load_word(params + PIXEL_BLOCK), load_word(params + PART_TILES)
        parts = (group_tiles + part_tiles - 1) // part_tiles
        pixel_blocks = (pixels + pixel_block - 1) // pixel_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for u in range(first * unit_block, min(last * unit_block, units)):
            part, rest = u % parts, u // parts
            p = rest % pixel_blocks * pixel_block
            count = min(pixel_block, pixels - p)
            group, n = rest // pixel_blocks % groups, rest // pixel_blocks // groups
            source = x + n * load_word(params + X_BATCH) + group * load_word(params + X_GROUP)
            target = y + n * load_word(params + Y_BATCH) + group * load_word(params + Y_GROUP)
            other = residual + n * load_word(params + RESIDUAL_BATCH)
            other += group * load_word(params + RESIDUAL_GROUP)
            begin = part * part_tiles
            for o in range(begin, min(begin + part_tiles, group_tiles)):
                panel = group * group_tiles + o
                for r in range(run_count):
                    record = runs + r * RUN_BYTES
                    low = max(load_offset(record), p)
                    high = min(load_offset(record + 4), p + count)
                    entry = load_offset(record + 8)
                    if low < high:
                        run(
                            *(high - low, load_offset(record + 12) - entry),
                            *(taps + TAP_BYTES * entry, source, x_pixels + 4 * low),
                            filter_ + panel * depth * entry_bytes,
                            *(target + o * vectors * y_plane, y_pixels + 4 * low, y_plane),
                            starts + (r * groups * group_tiles + panel) * panel_bytes,
                            *(scale + panel * scale_bytes, bounds),
                            other + o * vectors * residual_plane,
                            *(residual_pixels + 4 * low, residual_plane),
                        )

    return convolution
