"""Lowering of weighted_gather: weighted sums of rows of a table."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.kernels.movement import weighted_gather as kernels
from nnefc.kernels.movement.weighted_gather import WEIGHTED
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile

ITEM_NS = 0.06
"""Nanoseconds to multiply and add an item of a row."""
CELL_NS = 50.0
"""Nanoseconds to find the positions and weights of a cell."""


@lowering("weighted_gather")
def weighted_gather(lower: Lowering, op: Op) -> None:
    table, rows, row_weights, columns, column_weights = op.inputs
    regions, row_cells, column_cells, width = op.output.type.dims
    row_taps, column_taps = rows.type.dims[1] // row_cells, columns.type.dims[1] // column_cells
    units = regions * row_cells
    unit_ns = column_cells * (CELL_NS + row_taps * column_taps * width * ITEM_NS)
    unit_block = units_per_tile(units, unit_ns, lower.threads)
    words = WEIGHTED.pack(
        table=lower.read(table),
        rows=lower.read(rows),
        row_weights=lower.read(row_weights),
        columns=lower.read(columns),
        column_weights=lower.read(column_weights),
        y=lower.write(op.output),
        extent=table.type.dims[0],
        width=width,
        row_cells=row_cells,
        row_taps=row_taps,
        column_cells=column_cells,
        column_taps=column_taps,
        units=units,
        unit_block=unit_block,
    )
    kernel = kernels.cells(str(table.type.dtype), str(rows.type.dtype))
    lower.launch(kernel, words, ceil_div(units, unit_block))
