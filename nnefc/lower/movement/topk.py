"""Lowering of topk: the largest or smallest items along a dimension."""

from __future__ import annotations

import math

from nnefc.ir import Op
from nnefc.kernels.reduce import topk as topk_kernels
from nnefc.kernels.reduce.topk import TOPK
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile

ITEM_NS = 1.5
"""Nanoseconds to compare an item with the root of the heap."""
LEVEL_NS = 4.0
"""Nanoseconds to sift down one level of the heap."""


@lowering("topk")
def topk(lower: Lowering, op: Op) -> None:
    (input_,), (values, indices) = op.inputs, op.outputs
    shape = input_.type.dims
    axis: int = op.attributes["axis"]
    count: int = op.attributes["k"]
    inner = math.prod(shape[axis + 1 :])
    rows = math.prod(shape[:axis]) * inner
    row_ns = shape[axis] * ITEM_NS + count * count.bit_length() * LEVEL_NS
    row_block = units_per_tile(rows, row_ns, lower.threads)
    tiles = ceil_div(rows, row_block)
    words = TOPK.pack(
        x=lower.read(input_),
        values=lower.write(values),
        indices=lower.write(indices),
        heaps=lower.scratch(8 * count * tiles),
        extent=shape[axis],
        count=count,
        inner=inner,
        rows=rows,
        row_block=row_block,
    )
    kernel = topk_kernels.topk(
        op.attributes["largest"], item=str(input_.type.dtype), index=str(indices.type.dtype)
    )
    lower.launch(kernel, words, tiles)
