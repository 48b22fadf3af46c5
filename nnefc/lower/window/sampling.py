"""sample, desample and multilinear_upsample (NNEF 1.0.2 sections 4.3.3, 4.3.4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.ir import DType, Op
from nnefc.kernels.window import sampling as kernels
from nnefc.kernels.window.sampling import INTERPOLATE, SAMPLE
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.window import taps
from nnefc.ops.core.window_arithmetic import pooling_window
from nnefc.program.program import Ref
from nnefc.program.tables.upsampling import interpolation_points
from nnefc.program.tables.window_taps import coalesce, dimension_pitches, dimensions_of
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS
from nnefc.symbolic.traced_array import TracedArray, length, traced_call

Array = np.ndarray[Any, Any]
Points = tuple[Array | TracedArray, Array | TracedArray, Array | TracedArray]
"""The arrays `low`, `high` and `weight` of an `Interpolation`."""


@lowering("sample", "desample")
def sample(lower: Lowering, op: Op) -> None:
    input_, index = op.inputs
    reverse, dtype = op.name == "desample", op.output.type.dtype
    window = pooling_window(input_.type.dims, op.attributes, reverse=reverse)
    dimensions = coalesce(dimensions_of(window, op.attributes["border"]))
    table, starts = taps.index_table(lower, dimensions)
    items = op.output.type.volume
    unit_block = units_per_tile(
        items, 8 * len(dimensions) * (window.volume if reverse else 1), lower.threads
    )
    words = SAMPLE.pack(
        x=lower.read(input_),
        indices=lower.read(index),
        y=lower.write(op.output),
        rank=len(dimensions),
        outputs=[d.outputs for d in dimensions],
        pitches=dimension_pitches(dimensions, 1),
        taps=[d.taps for d in dimensions],
        table=table,
        starts=starts,
        volume=window.volume,
        items=items,
        unit_block=unit_block,
    )
    family = kernels.desample if reverse else kernels.sample
    kernel = family(str(dtype), str(index.type.dtype))
    lower.launch(kernel, words, ceil_div(items, unit_block))


@lowering("multilinear_upsample")
def multilinear_upsample(lower: Lowering, op: Op) -> None:
    """Separable interpolation, one dimension at a time.

    The last dimension comes first, while the tensor is smallest: it does not combine whole rows.
    """
    shape, factor = list(op.inputs[0].type.dims), op.attributes["factor"]
    x, y, dtype = lower.read(op.inputs[0]), lower.write(op.output), op.output.type.dtype
    axes = [axis for axis, f in enumerate(factor, 2) if f > 1][::-1] or [1]
    for axis in axes:
        extent, f = shape[axis], factor[axis - 2] if axis > 1 else 1
        points = traced_call(
            interpolation_points, extent, f, op.attributes["method"], op.attributes["border"]
        )
        around = (math.prod(shape[:axis]), extent, math.prod(shape[axis + 1 :]))
        shape[axis] = extent * f
        last = axis == axes[-1]
        to = y if last else lower.scratch(math.prod(shape) * dtype.itemsize)
        interpolate(lower, points, x, to, dtype, around)
        x = Ref(to.buffer)


def interpolate(
    lower: Lowering,
    points: Points,
    x: Ref,
    y: Ref,
    dtype: DType,
    shape: tuple[int, int, int],
) -> None:
    """Launch the interpolation of x [outer, extent, inner] to y [outer, outputs, inner]."""
    outer, extent, inner = shape
    low, high, weight = points
    outputs = length(low)
    rows = outer * outputs
    unit_block = units_per_tile(rows, 4 + inner / LOOP_ITEMS_PER_NS, lower.threads)
    words = INTERPOLATE.pack(
        x=x,
        y=y,
        outer=outer,
        extent=extent,
        outputs=outputs,
        inner=inner,
        low=lower.table(low),
        high=lower.table(high),
        weight=lower.table(weight),
        unit_block=unit_block,
    )
    kernel = kernels.interpolate(str(dtype))
    lower.launch(kernel, words, ceil_div(rows, unit_block))
