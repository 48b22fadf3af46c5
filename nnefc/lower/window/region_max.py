"""Lowering of maxima of cells of regions."""

from __future__ import annotations

import math

from nnefc.ir import Op
from nnefc.kernels.window.region_max import REGION_MAX, cells
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile


@lowering("region_max")
def region_max(lower: Lowering, op: Op) -> None:
    input_, regions = op.inputs
    _, maps, height, width = input_.type.dims
    rows, columns = op.attributes["output_size"]
    units = math.prod(op.output.type.dims[:3])
    unit_block = units_per_tile(units, float(height * width + rows * columns), lower.threads)
    words = REGION_MAX.pack(
        x=lower.read(input_),
        regions=lower.read(regions),
        y=lower.write(op.output),
        count=regions.type.dims[1],
        maps=maps,
        height=height,
        width=width,
        rows=rows,
        columns=columns,
        units=units,
        unit_block=unit_block,
    )
    kernel = cells(str(input_.type.dtype), str(regions.type.dtype), op.attributes["drops_outside"])
    lower.launch(kernel, words, ceil_div(units, unit_block))
