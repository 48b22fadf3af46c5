"""Lowering of grid_sample: sampling at coordinates given by a tensor."""

from __future__ import annotations

import math

from nnefc.ir import Op
from nnefc.kernels.window import grid_sample as kernels
from nnefc.kernels.window.grid_sample import BLOCK, GRID, TAPS
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile


@lowering("grid_sample")
def grid_sample(lower: Lowering, op: Op) -> None:
    input_, grid = op.inputs
    batch, channels, *extents = input_.type.dims
    points = math.prod(grid.type.dims[1:-1])
    blocks = ceil_div(points, BLOCK)
    units = batch * blocks
    mode: str = op.attributes["mode"]
    taps = TAPS[mode] ** len(extents)
    unit_block = units_per_tile(units, BLOCK * taps * (4.0 + channels), lower.threads)
    words = GRID.pack(
        x=lower.read(input_),
        grid=lower.read(grid),
        y=lower.write(op.output),
        channels=channels,
        extents=extents,
        plane=math.prod(extents),
        points=points,
        blocks=blocks,
        units=units,
        unit_block=unit_block,
    )
    a = op.attributes
    kernel = kernels.sample(
        mode, a["padding_mode"], a["align_corners"], rank=len(extents), item=str(input_.type.dtype)
    )
    lower.launch(kernel, words, ceil_div(units, unit_block))
