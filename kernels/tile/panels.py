"""Matrices packed into panels.

A panel is some columns of a matrix stored row by row, so that a product reads memory in order.
Columns are cut into units of one vector or one column; panels have nearly equal numbers of units,
so that no panel is nearly empty.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import LOAD, STORE, address, helper, load_word
from nnefc.kernels.vector.transpose import transpose as in_registers
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

BATCH = 6

PACK = Layout(
    "x:ref y:ref depth count row step unit panels "
    "batch_rank batch:6 x_batch:6 y_batch:6 tiles tile_block"
)
"""Parameters of `panels.panels`: packs x [depth, count] into panels at y.

x has rows `row` bytes and columns `step` bytes apart.  y has `panels` panels in units of `unit`
columns; padding columns of the last unit hold finite values.  `batch_rank` and `batch` are the
number and extents of batch dimensions; a tile is `tile_block` of `tiles` panels.
"""
(
    X,
    Y,
    DEPTH,
    COUNT,
    ROW,
    STEP,
    UNIT,
    PANELS,
    BATCH_RANK,
    BATCH_EXTENTS,
    X_BATCH,
    Y_BATCH,
    TILES,
    TILE_BLOCK,
) = PACK.offsets


@helper
def part_start(part, count, parts):
    """The first item of part `part` of `count` items cut into `parts` nearly equal parts."""
    return part * (count // parts) + min(part, count % parts)


@helper
def batch_offset(params, rank, extents, pitches, number):
    """Byte offset of batch item `number`; `rank`, `extents`, `pitches`: offsets of parameters."""
    offset = 0
    for d in range(load_word(params + rank) - 1, -1, -1):
        extent = load_word(params + extents + 8 * d)
        offset += number % extent * load_word(params + pitches + 8 * d)
        number = number // extent
    return offset


@cache
def copy_rows(item: str) -> Any:
    """Intrinsic `copy(y, x, row, depth, count, width)`: copies `depth` rows of `count` items.

    Rows of x are `row` bytes apart; rows of y are dense, with zeros up to `width` items.
    """

    @vector_intrinsic(item, lanes_of(item), 6)
    def copy(v: Vector, y, x, row, depth, count, width):
        builder = v.builder
        y, x = v.pointer(y), v.pointer(x)
        pitch = builder.mul(width, v.word(v.itemsize))
        whole = builder.and_(count, v.word(-v.lanes))
        with v.loop(0, depth, 1) as k:
            source, target = (
                v.at(x, builder.mul(k.index, row)),
                v.at(y, builder.mul(k.index, pitch)),
            )
            with v.loop(0, whole, v.lanes) as column:
                at = builder.mul(column.index, v.word(v.itemsize))
                v.load(v.at(source, at)).store(v.at(target, at))
            with v.loop(whole, width, v.lanes) as column:
                at = builder.mul(column.index, v.word(v.itemsize))
                given = v.mask(builder.sub(count, column.index))
                kept = v.mask(builder.sub(width, column.index))
                v.load(v.at(source, at), mask=given).store(v.at(target, at), mask=kept)

    return copy


@cache
def transpose_rows(item: str, lanes: int) -> Any:
    """Intrinsic `transpose(y, x, step, depth, count, width)`: y[k, j] = x[j, k].

    Rows of x are contiguous and `step` bytes apart.  y is dense [depth, width]; columns from
    `count` on repeat the last one.  `lanes`: lanes of a vector, at most the usual width of panels.
    """

    @vector_intrinsic(item, lanes, 6, apart=True)
    def transpose(v: Vector, y, x, step, depth, count, width):
        builder = v.builder
        y, x = v.pointer(y), v.pointer(x)
        size = v.word(v.itemsize)
        last = builder.sub(count, v.word(1))
        whole = builder.and_(depth, v.word(-v.lanes))
        with v.loop(0, width, v.lanes) as column:
            rows = []
            for i in range(v.lanes):
                j = builder.add(column.index, v.word(i))
                beyond = builder.icmp_signed(">", j, last)
                rows.append(v.at(x, builder.mul(builder.select(beyond, last, j), step)))
            kept = v.mask(builder.sub(width, column.index))
            with v.loop(0, whole, v.lanes) as k:
                at = builder.mul(k.index, size)
                values = in_registers(v, [v.load(v.at(r, at)) for r in rows])
                for i, value in enumerate(values):
                    row = builder.mul(builder.add(k.index, v.word(i)), width)
                    item_at = builder.mul(builder.add(row, column.index), size)
                    value.store(v.at(y, item_at), mask=kept)
            with v.loop(whole, depth, 1) as k:
                at = builder.mul(k.index, size)
                value = v.gather(v.load_item(v.at(r, at)) for r in rows)
                item_at = builder.add(builder.mul(k.index, width), column.index)
                value.store(v.at(y, builder.mul(item_at, size)), mask=kept)

    return transpose


@cache
def pack_panel(item: str, lanes: int) -> Any:
    """Helper `pack(y, x, row, step, depth, count, width)` of one panel of `width` columns."""
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    copy, transpose = copy_rows(item), transpose_rows(item, lanes)

    @helper
    def pack(y, x, row, step, depth, count, width):
        if step == size:
            copy(y, x, row, depth, count, width)
        elif row == size:
            transpose(y, x, step, depth, count, width)
        else:
            for k in range(depth):
                for j in range(width):
                    store(y, k * width + j, load(x + k * row + min(j, count - 1) * step))

    return pack


@family(moves=True)
def panels(item: str, lanes: int) -> KernelFunction:
    """Pack a matrix into panels; `lanes`: lanes of transposed vectors, at most a panel's width."""
    size, pack = ITEMSIZE[item], pack_panel(item, lanes)

    def panels(bases, params, first, last):
        x0, y0 = address(bases, params + X), address(bases, params + Y)
        depth, count = load_word(params + DEPTH), load_word(params + COUNT)
        row, step, unit = (
            load_word(params + ROW),
            load_word(params + STEP),
            load_word(params + UNIT),
        )
        parts, block = load_word(params + PANELS), load_word(params + TILE_BLOCK)
        units = (count + unit - 1) // unit
        for t in range(first * block, min(last * block, load_word(params + TILES))):
            part, number = t % parts, t // parts
            x = x0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, X_BATCH, number)
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number)
            start = part_start(part, units, parts) * unit
            width = part_start(part + 1, units, parts) * unit - start
            some = min(width, count - start)
            pack(y + start * depth * size, x + start * step, row, step, depth, some, width)

    return panels
