"""Cubic interpolation of volumes at coordinates that are data.

The operation `grid_sample` interpolates planes only.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType
from nnefc.ops.extended.grid_sample import CUBIC_A, FARTHEST, PADDINGS

_TAPS: Final = 4
"""Items along a dimension that a sample depends on."""


def sample_volumes(
    make: OpBuilder, x: Operand, grid: Operand, padding: str, *, align_corners: bool
) -> Operand:
    """x [n, channels, d, h, w] at coordinates grid [n, D, H, W, 3], which are in the order w, h, d.

    Each sample is a sum of 64 weighted items, [n, channels, D, H, W].
    """
    batch, channels, *extents = of_rank("grid_sample", "X", x, 5)
    groups, *sizes, width = of_rank("grid_sample", "grid", grid, 5)
    if groups != batch or width != len(extents) or padding not in PADDINGS:
        message = f"X has shape {list(x.type.dims)}, grid {list(grid.type.dims)}, {padding!r}"
        hint = f"grid is [n, D, H, W, 3], padding_mode one of {', '.join(PADDINGS)}"
        raise OperatorError("argument/grid_sample", message, hint)
    count = math.prod(sizes)
    points = make.reshape(grid, (batch, count, width))
    volume = math.prod(extents)
    index: Operand = make.reshape(make("mul", make.iota(batch), volume), (batch, 1, 1, 1, 1))
    weight: Any = None
    for d, extent in enumerate(extents):
        at = slice_in_dim(make, points, 2, width - 1 - d, width - d)
        where, factor = _taps(make, at, extent, padding, align_corners=align_corners)
        shape = [batch, count, 1, 1, 1]
        shape[2 + d] = _TAPS
        step = make("mul", make.reshape(where, shape), math.prod(extents[d + 1 :]))
        index = make("add", index, step)
        factor = make.reshape(factor, shape)
        weight = factor if weight is None else make("mul", weight, factor)
    items = make.reshape(make.transpose(x, (0, 2, 3, 4, 1)), (batch * volume, channels))
    taps = _TAPS ** len(extents)
    read = make("gather", items, make.reshape(index, (batch * count * taps,)), axis=0)
    terms = make("mul", read, make.reshape(weight, (batch * count * taps, 1)))
    terms = make.reshape(terms, (batch, count, taps, channels))
    sums = make.reshape(make("sum_reduce", terms, axes=(2,)), (batch, *sizes, channels))
    return make.transpose(sums, (0, 4, 1, 2, 3))


def _taps(
    make: OpBuilder, at: Operand, extent: int, padding: str, *, align_corners: bool
) -> tuple[Operand, Operand]:
    """(indices, weights) of the taps along a dimension, each [n, count, taps], for coordinates
    [n, count, 1] from -1 to 1.
    """
    span = extent - 1 if align_corners else extent
    at = make("mul", make("add", at, 1.0), span / 2)
    at = at if align_corners else make("sub", at, 0.5)
    at = make("min", make("max", at, -FARTHEST), FARTHEST)
    low = make("floor", at)
    steps = np.arange(-1, _TAPS - 1).reshape(1, 1, _TAPS)
    offsets = make.cast(KnownTensor(steps, DType.INT64), at.type.dtype)
    weight = _cubic(make, make("abs", make("sub", make("sub", at, low), offsets)))
    position = make("add", low, offsets)
    if padding == "reflection":
        position = _reflected(make, position, 0.0 if align_corners else -0.5, float(span))
    inside = make("min", make("max", position, 0.0), float(extent - 1))
    if padding == "zeros":
        weight = make("select", make("eq", inside, position), weight, 0.0)
    return make.cast(inside, DType.INT64), weight


def _cubic(make: OpBuilder, distance: Operand) -> Operand:
    """The cubic convolution kernel (Keys 1981) at distances from 0 to 2."""
    a = CUBIC_A

    def polynomial(*coefficients: float) -> Any:
        value: Any = coefficients[0]
        for each in coefficients[1:]:
            value = make("add", make("mul", distance, value), each)
        return value

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    return make("select", make("le", distance, 1.0), near, far)


def _reflected(make: OpBuilder, at: Operand, low: float, span: float) -> Operand:
    """Coordinates, reflected at `low` and `low` + `span`."""
    if span == 0:
        return make("mul", at, 0.0)
    turn = make("remainder", make("abs", make("sub", at, low)), 2 * span)
    folded = make("min", turn, make("sub", 2 * span, turn))
    return make("add", folded, low)
