"""Resizing along any axes, one after the other."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import DType, Op
from nnefc.kernels.sampling import BLEND
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import copy_bytes
from nnefc.lower.gathering import gather_rows
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.lower.sampling import interpolate
from nnefc.ops.resampling import Taps, resized_axes
from nnefc.ops.window_rules import Interpolation
from nnefc.rates import LOOP_ITEMS_PER_NS
from nnefc.runtime.program import Ref


@lowering("resize")
def resize(lower: Lowering, op: Op) -> None:
    x, y, dtype = lower.read(op.inputs[0]), lower.write(op.output), op.output.type.dtype
    shape = list(op.inputs[0].type.dims)
    axes = list(resized_axes(op.inputs[0].type.dims, op.attributes))
    for axis, taps in axes:
        around = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        shape[axis] = taps.index.shape[0]
        last = axis == axes[-1][0]
        to = y if last else lower.scratch(math.prod(shape) * dtype.itemsize)
        _resample(lower, taps, x, to, dtype, around)
        x = Ref(to.buffer)
    if not axes:
        copy_bytes(lower, x, y, op.output.type.nbytes)


def _resample(
    lower: Lowering, taps: Taps, x: Ref, y: Ref, dtype: DType, shape: tuple[int, int, int]
) -> None:
    """x, [outer, extent, inner], to y, [outer, outputs, inner]."""
    outer, extent, inner = shape
    outputs, count = taps.index.shape
    if count == 1:
        indices = lower.table(taps.index[:, 0].astype(np.int32))
        gather_rows(lower, x, y, indices, "int32", dtype.itemsize, shape, outputs)
    elif count == 2:
        low, high = taps.index.T
        points = Interpolation(low, high, np.ascontiguousarray(taps.weight[:, 1]))
        interpolate(lower, points, x, y, dtype, shape)
    else:
        rows = outer * outputs
        row_block = per_tile(rows, 4 + count * inner / LOOP_ITEMS_PER_NS, lower.threads)
        words = BLEND.pack(
            x=x,
            y=y,
            outer=outer,
            extent=extent,
            outputs=outputs,
            inner=inner,
            taps=count,
            index=taps.index.ravel(),
            weight=taps.weight.ravel().view("int64"),
            row_block=row_block,
        )
        lower.launch(Kernel("sampling.blend", (str(dtype),)), words, ceil_div(rows, row_block))
