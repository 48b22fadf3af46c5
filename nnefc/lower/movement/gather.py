"""Items at indices along a dimension, or along several where they are known."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from nnefc.ir import Shape
from nnefc.kernels.movement import strided
from nnefc.kernels.movement.strided import GATHER
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS
from nnefc.symbolic.traced_array import TracedArray, length


def gather_rows(
    lower: Lowering,
    x: Ref,
    y: Ref,
    indices: Ref,
    index: str,
    itemsize: int,
    shape: tuple[int, int, int],
    count: int,
) -> None:
    """y[o, i, inner] = x[o, indices[i], inner] for x of [outer, extent, inner]."""
    outer, extent, inner = shape
    rows = outer * count
    row_block = per_tile(rows, 8 + inner / LOOP_ITEMS_PER_NS, lower.threads)
    words = GATHER.pack(
        x=x,
        y=y,
        indices=indices,
        extent=extent,
        count=count,
        inner=inner,
        rows=rows,
        row_block=row_block,
    )
    kernel = strided.gather(itemsize, index)
    lower.launch(kernel, words, ceil_div(rows, row_block))


def repeat_items(
    lower: Lowering,
    x: Ref,
    y: Ref,
    shape: Shape,
    itemsize: int,
    indices: Mapping[int, npt.NDArray[np.int32] | TracedArray],
) -> None:
    """Items of x along some axes, one at least: y[i, j, ...] = x[indices[0][i], j, ...] for axis 0.

    y has more items than x.  The last axis comes first, while there is least: its items are moved
    one by one.
    """
    extents = list(shape)
    for axis in sorted(indices, reverse=True):
        found = indices[axis]
        around = (math.prod(extents[:axis]), extents[axis], math.prod(extents[axis + 1 :]))
        extents[axis] = length(found)
        last = axis == min(indices)
        to = y if last else lower.scratch(math.prod(extents) * itemsize)
        gather_rows(lower, x, to, lower.table(found), "int32", itemsize, around, extents[axis])
        x = Ref(to.buffer)
