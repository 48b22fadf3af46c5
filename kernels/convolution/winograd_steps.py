"""The steps of Winograd's convolution over a block of tiles, and the parameters of its kernels."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from nnefc.kernels.convolution.winograd_results import RECORD_ROWS
from nnefc.kernels.convolution.winograd_transforms import (
    WHOLE,
    AnyEnding,
    Taps,
    block_lanes,
    input_tiles,
    output_tiles,
    sum_type,
)
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.blocked_tile import FIRST, Half, cover, panel_width
from nnefc.kernels.tile.code_results import Ending
from nnefc.kernels.tile.code_tile import cover_codes
from nnefc.kernels.tile.offset_table import load_offset
from nnefc.kernels.vector.dot_words import WORD_PAIR
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import address, helper, load_word


class Panel(NamedTuple):
    """The output channel blocks that a register tile computes."""

    vectors: int
    half: Half = ""
    """The block of half length, if any."""


WINOGRAD = Layout(
    "x:ref y:ref residual:ref bias:ref bounds:ref zeros:ref filter:ref v:ref m:ref slots:ref "
    "x_tiles:ref y_tiles:ref residual_tiles:ref runs:ref v_tiles:ref m_tiles:ref counts:ref "
    "members:ref "
    "taps:ref x_pieces:ref x_batch x_plane x_row x_column y_batch y_plane y_row y_column "
    "residual_batch residual_plane residual_row residual_column "
    "in_blocks tap_blocks out_blocks columns elements depth panels last_panels run_count "
    "class_count batch items item_tiles parts capacity v_element m_element v_slot m_slot "
    "slot_count block units unit_block"
)
"""Parameters of all `winograd` kernels.

Kernels have the arguments `item`, the type of x, and `element`, the type of all other tensors if it
is a float.  Elements of codes are int16 and m is int32; the argument `ending` says what y is.

x, y, residual: blocked tensors, with the bytes between batch items, channel blocks, and rows and
columns of a tile, which are a dilation apart; without a residual, zeros with strides of 0.  bias:
[out_blocks * lanes]; bounds: the lowest and the highest result; of codes, a record of `CodeResults`
per channel block, and its bounds.  zeros: some vectors of zeros.

The reduction is over `in_blocks` channel blocks: `tap_blocks` for each piece of the window.
x_pieces: int32 [pieces], the bytes in x from the first pixel of the window to that of a piece.

A batch item has `item_tiles` tiles; tiles of one size follow each other.  x_tiles, y_tiles,
residual_tiles: int32, offsets of their first pixels from the start of a plane.  A block is one of
`parts` ranges of tiles for `items` batch items, at most `capacity` tiles; v and m hold its tiles
item by item.  runs: int32 [parts, run_count, 4]: first tile, end, and output rows and columns of
the tiles of equal size.

An element is a pair of points, numbered row by row with `columns` in a row; v_element and
m_element are the bytes between elements.  Small tiles lack some elements.  Elements that the same
tiles have form one of `class_count` classes.  members: int32 [elements], the class of an element;
counts: int32 [parts, class_count], tiles per item; v_tiles, m_tiles: int32 [parts, class_count,
capacity], offsets of the tiles' vectors in v and in m.

filter: [elements, panels, depth, channels, panel_width], of codes [.., channels / 2, panel_width,
2]; each element then has `last_panels` panels
with another number of vectors.  taps: int32 [depth, 2], offset in v and number of each entry of the
reduction.

A tile of the launch is `unit_block` of `units`.  A unit of `winograd.transform_input` and
`winograd.transform_output` is a channel block of block `block`, a unit of `winograd.multiply` a
panel of an element, a unit of `winograd.blocks` a block.  The last kernel has `slot_count` pieces
of memory for v and m, `v_slot` and `m_slot` bytes apart; slots: a lock word for each piece in its
own cache line, 0 if the piece is free.
"""
(
    X,
    Y,
    RESIDUAL,
    BIAS,
    BOUNDS,
    ZEROS,
    FILTER,
    V,
    M,
    SLOTS,
    X_TILES,
    Y_TILES,
    RESIDUAL_TILES,
    RUNS,
    V_TILES,
    M_TILES,
    COUNTS,
    MEMBERS,
    TAPS,
    X_PIECES,
    X_BATCH,
    X_PLANE,
    X_ROW,
    X_COLUMN,
    Y_BATCH,
    Y_PLANE,
    Y_ROW,
    Y_COLUMN,
    RESIDUAL_BATCH,
    RESIDUAL_PLANE,
    RESIDUAL_ROW,
    RESIDUAL_COLUMN,
    IN_BLOCKS,
    TAP_BLOCKS,
    OUT_BLOCKS,
    COLUMNS,
    ELEMENTS,
    DEPTH,
    PANELS,
    LAST_PANELS,
    RUN_COUNT,
    CLASS_COUNT,
    BATCH,
    ITEMS,
    ITEM_TILES,
    PARTS,
    CAPACITY,
    V_ELEMENT,
    M_ELEMENT,
    V_SLOT,
    M_SLOT,
    SLOT_COUNT,
    BLOCK,
    UNITS,
    UNIT_BLOCK,
) = WINOGRAD.offsets


def _v_vector(element: str) -> int:
    """Bytes of a channel block of an element."""
    return block_lanes(element) * ITEMSIZE[element]


def _m_vector(element: str) -> int:
    """Bytes of a channel block of a product."""
    return block_lanes(element) * ITEMSIZE[sum_type(element)]


@helper
def _first_item(params, block):
    return block // load_word(params + PARTS) * load_word(params + ITEMS)


@helper
def _item_count(params, block):
    left = load_word(params + BATCH) - _first_item(params, block)
    return min(load_word(params + ITEMS), left)


@helper
def _part_start(params, part):
    """The first tile of a part; the end of all tiles if `part` is the number of parts."""
    return load_word(params + ITEM_TILES) * part // load_word(params + PARTS)


@cache
def transform_input(item: str, element: str, taps: Taps, largest: int, dilated: bool) -> Any:
    """Helper that transforms channel blocks `first` to `end` - 1 of the tiles of a block into v."""
    transform = input_tiles(item, element, taps, largest, dilated)
    vector = _v_vector(element)

    @helper
    def run(bases, params, v, block, first, end):
        part = block % load_word(params + PARTS)
        start = _part_start(params, part)
        item_bytes = (_part_start(params, part + 1) - start) * vector
        run_count, v_element = load_word(params + RUN_COUNT), load_word(params + V_ELEMENT)
        runs = address(bases, params + RUNS) + part * run_count * 16
        offsets, row = address(bases, params + X_TILES), load_word(params + X_ROW)
        x = address(bases, params + X)
        x += _first_item(params, block) * load_word(params + X_BATCH)
        blocks, pieces = load_word(params + TAP_BLOCKS), address(bases, params + X_PIECES)
        for c in range(first, end):
            channels = c % blocks * load_word(params + X_PLANE)
            channels += load_offset(pieces + 4 * (c // blocks))
            for n in range(_item_count(params, block)):
                source = x + n * load_word(params + X_BATCH) + channels
                target = v + c * load_word(params + CAPACITY) * vector + n * item_bytes
                for r in range(run_count):
                    at = runs + 16 * r
                    tile = load_offset(at)
                    transform(
                        load_offset(at + 8),
                        load_offset(at + 12),
                        load_offset(at + 4) - tile,
                        offsets + 4 * tile,
                        source,
                        row,
                        load_word(params + X_COLUMN),
                        target + (tile - start) * vector,
                        v_element * load_word(params + COLUMNS),
                        v_element,
                    )

    return run


@cache
def transform_output(
    element: str, taps: Taps, largest: int, dilated: bool, ending: AnyEnding
) -> Any:
    """Helper that transforms channel blocks `first` to `end` - 1 of the tiles of a block from m."""
    transform = output_tiles(element, taps, largest, dilated, ending)
    vector = _m_vector(element)
    bias_bytes = vector * (RECORD_ROWS + ending.terms if isinstance(ending, Ending) else 1)

    @helper
    def run(bases, params, m, block, first, end):
        part = block % load_word(params + PARTS)
        start = _part_start(params, part)
        item_bytes = (_part_start(params, part + 1) - start) * vector
        run_count, m_element = load_word(params + RUN_COUNT), load_word(params + M_ELEMENT)
        runs = address(bases, params + RUNS) + part * run_count * 16
        y_tiles, others = address(bases, params + Y_TILES), address(bases, params + RESIDUAL_TILES)
        item = _first_item(params, block)
        y = address(bases, params + Y) + item * load_word(params + Y_BATCH)
        residual = address(bases, params + RESIDUAL)
        residual += item * load_word(params + RESIDUAL_BATCH)
        for c in range(first, end):
            for n in range(_item_count(params, block)):
                source = m + c * load_word(params + CAPACITY) * vector + n * item_bytes
                other = residual + n * load_word(params + RESIDUAL_BATCH)
                for r in range(run_count):
                    at = runs + 16 * r
                    tile = load_offset(at)
                    transform(
                        load_offset(at + 8),
                        load_offset(at + 12),
                        load_offset(at + 4) - tile,
                        source + (tile - start) * vector,
                        m_element * load_word(params + COLUMNS),
                        m_element,
                        y_tiles + 4 * tile,
                        y + n * load_word(params + Y_BATCH) + c * load_word(params + Y_PLANE),
                        load_word(params + Y_ROW),
                        load_word(params + Y_COLUMN),
                        others + 4 * tile,
                        other + c * load_word(params + RESIDUAL_PLANE),
                        load_word(params + RESIDUAL_ROW),
                        load_word(params + RESIDUAL_COLUMN),
                        address(bases, params + BIAS) + c * bias_bytes,
                        address(bases, params + BOUNDS),
                    )

    return run


@cache
def _product(element: str, panel: Panel, channels: int) -> Any:
    """Helper that multiplies a panel for tiles at `v_tiles` and `m_tiles`."""
    vectors, half = panel
    if element == WHOLE:
        assert not half, "codes have whole vectors"
        run_pairs = cover_codes(Ending("sums", "int32"), vectors, channels // WORD_PAIR, "pairs")

        @helper
        def product_of_codes(count, depth, taps, x, x_pixels, w, y, y_pixels, plane, zeros):
            run_pairs(
                *(count, depth, taps, x, x_pixels, w, y, y_pixels, plane),
                *(zeros, zeros, zeros, zeros, y_pixels, 0),
            )

        return product_of_codes
    run = cover(element, element, vectors, channels, half)

    @helper
    def product(count, depth, taps, x, x_pixels, w, y, y_pixels, plane, zeros):
        run(
            *(count, depth, taps, x, x_pixels, w, y, y_pixels, plane, zeros),
            *(0, y_pixels, 0, FIRST, zeros, 0),
        )

    return product


@cache
def multiply_panels(element: str, channels: int, each: Panel, last_ones: Panel) -> Any:
    """Helper that multiplies panels `first` to `end` - 1, element by element, for a block of tiles.

    The panels of an element are of shape `each`, then of shape `last_ones`, unless the latter has 0
    vectors.  An entry of the reduction is `channels` input channels.
    """
    vector, size = _m_vector(element), ITEMSIZE[element]
    (vectors, _), (last_vectors, _) = each, last_ones
    has_last = last_vectors > 0
    run_panel = _product(element, each, channels)
    run_last = _product(element, last_ones if has_last else each, channels)
    panel_bytes, last_bytes = (
        size * channels * panel_width(sum_type(element), *panel) for panel in (each, last_ones)
    )

    @helper
    def run(bases, params, v, m, block, first, end):
        part = block % load_word(params + PARTS)
        items, depth = _item_count(params, block), load_word(params + DEPTH)
        panels, last_panels = load_word(params + PANELS), load_word(params + LAST_PANELS)
        class_count, capacity = load_word(params + CLASS_COUNT), load_word(params + CAPACITY)
        filter_, taps = address(bases, params + FILTER), address(bases, params + TAPS)
        zeros, members = address(bases, params + ZEROS), address(bases, params + MEMBERS)
        v_tiles, m_tiles = address(bases, params + V_TILES), address(bases, params + M_TILES)
        counts = address(bases, params + COUNTS)
        plane = capacity * vector
        for u in range(first, end):
            element = u // (panels + last_panels)
            panel = u - element * (panels + last_panels)
            number = part * class_count + load_offset(members + 4 * element)
            count = load_offset(counts + 4 * number) * items
            if count == 0:
                continue
            x = v + element * load_word(params + V_ELEMENT)
            y = m + element * load_word(params + M_ELEMENT)
            y += min(panel, panels) * vectors * plane
            at, to = v_tiles + 4 * number * capacity, m_tiles + 4 * number * capacity
            w = filter_ + element * depth * (panels * panel_bytes + last_panels * last_bytes)
            w += min(panel, panels) * depth * panel_bytes
            last = panel - panels
            if has_last and last >= 0:
                w += last * depth * last_bytes
                y += last * last_vectors * plane
                run_last(count, depth, taps, x, at, w, y, to, plane, zeros)
            else:
                run_panel(count, depth, taps, x, at, w, y, to, plane, zeros)

    return run
