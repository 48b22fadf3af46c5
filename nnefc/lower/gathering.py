"""Items at indices along a dimension, or along several that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nnefc.ir import Shape
from nnefc.kernels.movement import GATHER
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.rates import LOOP_ITEMS_PER_NS
from nnefc.runtime.program import Ref


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
    kernel = Kernel("movement.gather", (itemsize, index))
    lower.launch(kernel, words, ceil_div(rows, row_block))


def repeat_items(
    lower: Lowering,
    x: Ref,
    y: Ref,
    shape: Shape,
    itemsize: int,
    indices: Sequence[npt.NDArray[np.int64]],
) -> None:
    """y[i, j, ...] = x[indices[0][i], indices[1][j], ...], where y has more items than x.

    The last dimension comes first, while there is least: its items are moved one by one.
    """
    extents = list(shape)
    axes = [d for d, i in enumerate(indices) if not np.array_equal(i, np.arange(shape[d]))]
    for axis in axes[::-1] or [0]:
        found = indices[axis]
        around = (math.prod(extents[:axis]), extents[axis], math.prod(extents[axis + 1 :]))
        extents[axis] = found.size
        last = axis == min(axes, default=0)
        to = y if last else lower.scratch(math.prod(extents) * itemsize)
        where = lower.table(found.astype(np.int32))
        gather_rows(lower, x, to, where, "int32", itemsize, around, found.size)
        x = Ref(to.buffer)
