"""Weighted sums of rows of a table, at positions that are sums of two offsets.

A cell of a region of interest is such a sum: rows of samples, times columns of samples.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.movement.checked_index import clamped
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import (
    LOAD,
    NUMBER,
    READ,
    STORE,
    WRITE,
    address,
    fma,
    helper,
    load_word,
)

WEIGHTED = Layout(
    "table:ref rows:ref row_weights:ref columns:ref column_weights:ref y:ref "
    "extent width row_cells row_taps column_cells column_taps units unit_block"
)
"""Parameters of `weighted_gather.cells`.

table: [extent, width]; rows: [regions, row_cells * row_taps], and the same for columns; y:
[regions, row_cells, column_cells, width].  A unit is a row of cells of a region; a tile is
`unit_block` of the `units`.
"""
(
    TABLE,
    ROWS,
    ROW_WEIGHTS,
    COLUMNS,
    COLUMN_WEIGHTS,
    Y,
    EXTENT,
    WIDTH,
    ROW_CELLS,
    ROW_TAPS,
    COLUMN_CELLS,
    COLUMN_TAPS,
    UNITS,
    UNIT_BLOCK,
) = WEIGHTED.offsets

HELD = 16
"""Rows of the table that are collected before they are added, a multiple of 4."""
load_place, store_place = LOAD["int64"], STORE["int64"]


def _adder(item: str) -> Any:
    """Helper `add(table, width, places, weights, count, y)`."""
    load, read, write, size = LOAD[item], READ[item], WRITE[item], ITEMSIZE[item]

    @helper
    def add(table, width, places, weights, count, y):
        """Add `count` weighted rows of the table to y, four at a time."""
        pitch = width * size
        fours = count // 4 * 4
        for i in range(0, fours, 4):
            a, b = table + load_place(places, i) * pitch, table + load_place(places, i + 1) * pitch
            c = table + load_place(places, i + 2) * pitch
            d = table + load_place(places, i + 3) * pitch
            p, q = load(weights, i), load(weights, i + 1)
            r, s = load(weights, i + 2), load(weights, i + 3)
            for k in range(width):
                total = fma(p, read(a, k), fma(q, read(b, k), read(y, k)))
                write(y, k, fma(r, read(c, k), fma(s, read(d, k), total)))
        for i in range(fours, count):
            a, p = table + load_place(places, i) * pitch, load(weights, i)
            for k in range(width):
                write(y, k, fma(p, read(a, k), read(y, k)))

    return add


@family()
def cells(item: str, index: str) -> KernelFunction:
    """Sums over the taps of each cell.

    Taps with the weight 0 are skipped; positions outside of the table are clamped.
    """
    load, store, zero, size = LOAD[item], STORE[item], NUMBER[item](0), ITEMSIZE[item]
    load_index, index_size = LOAD[index], ITEMSIZE[index]
    add = _adder(item)
    places_of, weights_of = local_bytes(8 * HELD), local_bytes(8 * HELD)

    @helper
    def add_cell(bases, params, row, row_count, column, column_count, places, weights, y):
        """Add the taps from `row` and from `column` on to the row of items at y."""
        table, width = address(bases, params + TABLE), load_word(params + WIDTH)
        extent = load_word(params + EXTENT)
        rows = address(bases, params + ROWS) + row * index_size
        row_weights = address(bases, params + ROW_WEIGHTS) + row * size
        columns = address(bases, params + COLUMNS) + column * index_size
        column_weights = address(bases, params + COLUMN_WEIGHTS) + column * size
        held = 0
        for i in range(row_count):
            for j in range(column_count):
                weight = load(row_weights, i) * load(column_weights, j)
                if weight != 0:
                    at = int(load_index(rows, i)) + int(load_index(columns, j))
                    store_place(places, held, clamped(at, extent))
                    store(weights, held, weight)
                    held += 1
                    if held == HELD:
                        add(table, width, places, weights, held, y)
                        held = 0
        add(table, width, places, weights, held, y)

    def cells(bases, params, first, last):
        width = load_word(params + WIDTH)
        row_cells, row_taps = load_word(params + ROW_CELLS), load_word(params + ROW_TAPS)
        column_cells = load_word(params + COLUMN_CELLS)
        column_taps = load_word(params + COLUMN_TAPS)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        places, weights = places_of(), weights_of()
        for unit in range(first * unit_block, min(last * unit_block, units)):
            region = unit // row_cells
            for cell in range(column_cells):
                y = address(bases, params + Y) + (unit * column_cells + cell) * width * size
                for k in range(width):
                    store(y, k, zero)
                column = (region * column_cells + cell) * column_taps
                add_cell(
                    bases,
                    params,
                    unit * row_taps,
                    row_taps,
                    column,
                    column_taps,
                    places,
                    weights,
                    y,
                )

    return cells
