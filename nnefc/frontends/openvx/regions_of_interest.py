"""Maxima of cells of regions, in both arithmetics."""

from __future__ import annotations

import math

from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.values import Call, batched, shaped


def roi_pooling(call: Call) -> Operand:
    """Cells are clipped to the map."""
    return pooled(call, drops_outside=False)


def roi_pooling_inside(call: Call) -> Operand:
    """A cell that begins outside of the map has no items."""
    return pooled(call, drops_outside=True)


def pooled(call: Call, *, drops_outside: bool) -> Operand:
    """`drops_outside`: whether a cell that begins at a negative coordinate is 0."""
    make = call.make
    data = batched(call, call.operands["input_data"], 4)
    rois = call.operands["input_rois"]
    regions = make.reshape(rois, (data.type.dims[0], math.prod(rois.type.dims[-2:-1]), 4))
    width, height = call.output.dims[:2]
    y = make("region_max", data, regions, output_size=(height, width), drops_outside=drops_outside)
    return shaped(call, y)
