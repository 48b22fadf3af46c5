"""Lowering of resize: one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.ir import DType, Op
from nnefc.kernels.window import sampling
from nnefc.kernels.window.sampling import BLEND
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import copy_bytes
from nnefc.lower.movement.gather import gather_rows
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.window.sampling import interpolate
from nnefc.ops.extended.resize import CUBIC_TAPS, changed_axes, scales_of
from nnefc.program.program import Ref
from nnefc.program.tables.resizing import resize_taps
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS
from nnefc.symbolic.traced_array import TracedArray, length, traced_call

Array = np.ndarray[Any, Any]


@lowering("resize")
def resize(lower: Lowering, op: Op) -> None:
    x, y, dtype = lower.read(op.inputs[0]), lower.write(op.output), op.output.type.dtype
    dims, sizes = op.inputs[0].type.dims, op.output.type.dims
    axes, scales = changed_axes(dims, op.attributes), scales_of(dims, op.attributes)
    shape = list(dims)
    how = tuple((name, value) for name, value in op.attributes.items() if name != "sizes")
    for axis in axes:
        tables = traced_call(resize_taps, shape[axis], sizes[axis], scales[axis], how)
        around = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        shape[axis] = sizes[axis]
        last = axis == axes[-1]
        to = y if last else lower.scratch(math.prod(shape) * dtype.itemsize)
        _resample(lower, tables, x, to, dtype, around)
        x = Ref(to.buffer)
    if not axes:
        copy_bytes(lower, x, y, op.output.type.nbytes)


def _resample(
    lower: Lowering,
    tables: Sequence[Array | TracedArray],
    x: Ref,
    y: Ref,
    dtype: DType,
    shape: tuple[int, int, int],
) -> None:
    """Launch x [outer, extent, inner] to y [outer, outputs, inner] with the tables of `_taps`."""
    outer, extent, inner = shape
    outputs = length(tables[0])
    match tables:
        case (indices,):
            at = lower.table(indices)
            gather_rows(lower, x, y, at, "int32", dtype.itemsize, shape, outputs)
        case low, high, weight:
            interpolate(lower, (low, high, weight), x, y, dtype, shape)
        case index, weight:
            rows, count = outer * outputs, CUBIC_TAPS
            row_block = units_per_tile(rows, 4 + count * inner / LOOP_ITEMS_PER_NS, lower.threads)
            words = BLEND.pack(
                x=x,
                y=y,
                outer=outer,
                extent=extent,
                outputs=outputs,
                inner=inner,
                taps=count,
                index=lower.table(index),
                weight=lower.table(weight),
                row_block=row_block,
            )
            lower.launch(sampling.blend(str(dtype)), words, ceil_div(rows, row_block))
        case _:
            raise AssertionError(f"{len(tables)} tables")
