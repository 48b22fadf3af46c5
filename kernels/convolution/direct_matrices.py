"""Direct convolution on channel-blocked bfloat16 in matrix registers, see `matrix_pixels`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false
# (numba is untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.matrix_pixels import (
    SUMS_BYTES,
    ResultArguments,
    SumArguments,
    pixel_results,
    pixel_sums,
)
from nnefc.kernels.tile.matrix_tile import ROW_BYTES, begin_matrices, end_matrices
from nnefc.kernels.tile.offset_table import load_offset
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.memory import address, helper, load_word, procedure

MATRICES = Layout(
    "x:ref y:ref filter:ref bias:ref residual:ref taps:ref tiles:ref rows:ref y_pixels:ref "
    "residual_pixels:ref x_row x_batch x_group y_batch y_group y_panel y_vector "
    "residual_batch residual_group residual_panel residual_vector "
    "groups panels tile_count depth words height clamp channels "
    "tile_block panel_block units unit_block"
)
"""Parameters of `direct_matrices.convolution`; those of `direct.DIRECT` with the same names, and

- filter: [groups, panels, depth, words, columns] words; bias: float32 [groups, panels, columns]
- taps: int32 [depth, 2], a byte offset relative to a pixel, and the number of its weights
- tiles: int32 [tile_count, 5]: registers of pixels, the byte offsets of the first pixel of each in
  x, the first pixel in the tables and their end
- rows: int32 [pixels], the byte offset of the sums of a pixel in those of its tile
- x_row: bytes from row to row of a register of pixels, of which it has `height`
- y_panel, residual_panel: bytes from panel to panel; y_vector, residual_vector: from vector to
  vector of a panel
- words: words of the depth of an entry
- channels: channels of the last panel; others become zero.  0 if they need not

A unit is `tile_block` tiles x `panel_block` panels of one group and batch item; a tile of the
launch is `unit_block` of `units`.
"""
(
    X,
    Y,
    FILTER,
    BIAS,
    RESIDUAL,
    TAPS,
    TILES,
    ROWS_AT,
    Y_PIXELS,
    RESIDUAL_PIXELS,
    X_ROW,
    X_BATCH,
    X_GROUP,
    Y_BATCH,
    Y_GROUP,
    Y_PANEL,
    Y_VECTOR,
    RESIDUAL_BATCH,
    RESIDUAL_GROUP,
    RESIDUAL_PANEL,
    RESIDUAL_VECTOR,
    GROUPS,
    PANELS,
    TILE_COUNT,
    DEPTH,
    WORDS,
    HEIGHT,
    CLAMP,
    CHANNELS,
    TILE_BLOCK,
    PANEL_BLOCK,
    UNITS,
    UNIT_BLOCK,
) = MATRICES.offsets
TILE_BYTES: Final = 20
"""Bytes of a record of `tiles`."""
SHARES: Final = 4
"""Most tiles that share the prefetch of the weights of the next panel."""


@family()
def convolution(form: RealForm, vectors: int) -> KernelFunction:
    """Tiles of `vectors` channel blocks, 1 or 2; x and the filter are bfloat16."""
    run_units, sums = _unit_loops(vectors), local_bytes(2 * SUMS_BYTES)
    compute, finish = pixel_sums(vectors), pixel_results(form, vectors)

    def convolution(bases, params, first, last):
        begin_matrices(load_word(params + HEIGHT), load_word(params + WORDS))
        run_units(bases, params, first, last, compute(), finish(), sums())
        end_matrices()

    return convolution


@cache
def _unit_loops(vectors: int) -> Any:
    """Helper `run_units(bases, params, first, last, compute, finish, sums)`.

    The loops over units, translated once; `compute` and `finish` are the addresses of `pixel_sums`
    and `pixel_results`, `sums` that of memory for the sums of
    two tiles.
    """
    run_tiles, panel_row = _tile_loop(), vectors * ROW_BYTES

    @helper
    def run_units(bases, params, first, end_tile, compute, finish, sums):
        x0, y0 = address(bases, params + X), address(bases, params + Y)
        filter0, bias0 = address(bases, params + FILTER), address(bases, params + BIAS)
        residual0 = address(bases, params + RESIDUAL)
        groups, panels = load_word(params + GROUPS), load_word(params + PANELS)
        tile_count, tile_block = load_word(params + TILE_COUNT), load_word(params + TILE_BLOCK)
        panel_block = load_word(params + PANEL_BLOCK)
        step = load_word(params + WORDS) * panel_row
        parts = (panels + panel_block - 1) // panel_block
        blocks = (tile_count + tile_block - 1) // tile_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        few = load_word(params + CHANNELS)
        for u in range(first * unit_block, min(end_tile * unit_block, units)):
            begin, rest = u % parts * panel_block, u // parts
            start = rest % blocks * tile_block
            end = min(start + tile_block, tile_count)
            group, n = rest // blocks % groups, rest // blocks // groups
            x = x0 + n * load_word(params + X_BATCH) + group * load_word(params + X_GROUP)
            y = y0 + n * load_word(params + Y_BATCH) + group * load_word(params + Y_GROUP)
            residual = residual0 + n * load_word(params + RESIDUAL_BATCH)
            residual += group * load_word(params + RESIDUAL_GROUP)
            last = min(begin + panel_block, panels)
            panel = group * panels + begin
            channels = few if last == panels and group + 1 == groups else 0
            run_tiles(
                *(bases, params, compute, finish, sums, start, end, last - begin, x),
                *(filter0 + panel * load_word(params + DEPTH) * step, step),
                *(bias0 + panel * panel_row, panel_row),
                y + begin * load_word(params + Y_PANEL),
                residual + begin * load_word(params + RESIDUAL_PANEL),
                channels,
            )

    return run_units


@cache
def _tile_loop() -> Any:
    """Helper `run_tiles(bases, params, ...)`: tiles `start` to `end` of some panels.

    The sums of a tile are finished while the registers sum the next one.
    """
    call_compute = procedure(len(SumArguments._fields))
    call_finish = procedure(len(ResultArguments._fields))

    @helper
    def run_tiles(
        bases,
        params,
        compute,
        finish,
        sums,
        start,
        end,
        panels,
        x,
        weights,
        step,
        bias,
        bias_row,
        y,
        residual,
        few,
    ):
        taps, tiles = address(bases, params + TAPS), address(bases, params + TILES)
        rows, y_pixels = address(bases, params + ROWS_AT), address(bases, params + Y_PIXELS)
        residual_pixels = address(bases, params + RESIDUAL_PIXELS)
        x_row, depth = load_word(params + X_ROW), load_word(params + DEPTH)
        y_vector = load_word(params + Y_VECTOR)
        residual_vector = load_word(params + RESIDUAL_VECTOR)
        count = end - start
        share = step // min(count, SHARES)
        for i in range(count * panels + 1):
            if i < count * panels:
                record = tiles + (start + i % count) * TILE_BYTES
                ahead = depth * step + min(i % count * share, step)
                call_compute(
                    *(compute, load_offset(record), x + load_offset(record + 4)),
                    *(x + load_offset(record + 8), x_row, depth, taps),
                    *(weights + i // count * depth * step, step),
                    *(ahead, min(ahead + share, (depth + 1) * step), sums + i % 2 * SUMS_BYTES),
                )
            if i > 0:
                o, record = (i - 1) // count, tiles + (start + (i - 1) % count) * TILE_BYTES
                p = load_offset(record + 12)
                channels = few if few > 0 and o + 1 == panels else bias_row // 4
                call_finish(
                    *(finish, load_offset(record + 16) - p, sums + (i - 1) % 2 * SUMS_BYTES),
                    *(rows + 4 * p, y + o * load_word(params + Y_PANEL), y_pixels + 4 * p),
                    *(y_vector, bias + o * bias_row),
                    residual + o * load_word(params + RESIDUAL_PANEL),
                    *(residual_pixels + 4 * p, residual_vector, params + CLAMP, channels),
                )

    return run_tiles
