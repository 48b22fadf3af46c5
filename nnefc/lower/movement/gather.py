"""Gathers items at indices along one dimension, or along several with known indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nnefc.ir import Shape, Value
from nnefc.kernels.movement import gather as kernels
from nnefc.kernels.movement.gather import GATHER
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, units_per_tile
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
    shape_words: Sequence[int] = (-1,),
    checked: Value | None = None,
) -> None:
    """Launch y[o, i, :] = x[o, indices[i], :] for x of shape [outer, extent, inner].

    `index`: the type of the indices; `count`: their number.  `shape_words`: from `index_words`, for
    the tensor `checked` of indices; by default the indices are known to be in range.
    """
    outer, extent, inner = shape
    rows = outer * count
    row_block = units_per_tile(rows, 8 + inner / LOOP_ITEMS_PER_NS, lower.threads)
    words = GATHER.pack(
        x=x,
        y=y,
        indices=indices,
        extent=extent,
        count=count,
        inner=inner,
        rows=rows,
        row_block=row_block,
        shape=shape_words,
    )
    kernel = kernels.rows(itemsize, index)
    lower.launch(kernel, words, ceil_div(rows, row_block), indices=checked)


def repeat_items(
    lower: Lowering,
    x: Ref,
    y: Ref,
    shape: Shape,
    itemsize: int,
    indices: Mapping[int, npt.NDArray[np.int32] | TracedArray],
) -> None:
    """Launch gathers of x along one or more axes: y[i, ...] = x[indices[0][i], ...] for axis 0.

    y must have at least as many items as x.  The last axis comes first, while the tensor is
    smallest, because its items are moved one by one.
    """
    extents = list(shape)
    for axis in sorted(indices, reverse=True):
        chosen = indices[axis]
        around = (math.prod(extents[:axis]), extents[axis], math.prod(extents[axis + 1 :]))
        extents[axis] = length(chosen)
        last = axis == min(indices)
        to = y if last else lower.scratch(math.prod(extents) * itemsize)
        gather_rows(lower, x, to, lower.table(chosen), "int32", itemsize, around, extents[axis])
        x = Ref(to.buffer)
