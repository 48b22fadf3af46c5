"""Lowering of sums in the order of items."""

from __future__ import annotations

import math

from nnefc.ir import Op
from nnefc.kernels.reduce.ordered_sum import ORDERED_SUM, sums
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.extended.ordered_sum import NAME


@lowering(NAME)
def ordered_sum(lower: Lowering, op: Op) -> None:
    x = op.inputs[0]
    axis: int = op.attributes["axis"]
    count, *inner = x.type.dims[axis:]
    units = op.output.type.volume
    unit_block = units_per_tile(units, float(count), lower.threads)
    words = ORDERED_SUM.pack(
        x=lower.read(x),
        y=lower.write(op.output),
        count=count,
        inner=math.prod(inner),
        units=units,
        unit_block=unit_block,
    )
    lower.launch(sums(str(x.type.dtype)), words, ceil_div(units, unit_block))
