"""Folds of windows of items, and items with others between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError

MAX_FOLDED: Final = 1024
"""The largest extent of a window: each of its items is an operation."""


def spread(make: OpBuilder, x: Operand, steps: Sequence[int], filler: float) -> Operand:
    """Items with `step` - 1 fillers between them along each dimension."""
    for axis, step in enumerate(steps):
        count = x.type.dims[axis]
        if step < 1:
            raise OperatorError("argument/window", f"the items are dilated by {list(steps)}")
        if step == 1 or count <= 1:
            continue
        before, after = x.type.dims[:axis], x.type.dims[axis + 1 :]
        apart = make.reshape(x, (*before, count, 1, *after))
        more = tuple((0, step - 1 if i == axis + 1 else 0) for i in range(apart.type.rank))
        filled = make("pad", apart, padding=more, border="constant", value=filler)
        joined = make.reshape(filled, (*before, count * step, *after))
        x = slice_in_dim(make, joined, axis, 0, (count - 1) * step + 1)
    return x


def folded_windows(
    make: OpBuilder,
    operation: str,
    x: Operand,
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Operand:
    """The items of each window, combined by an associative operation; windows lie inside."""
    rank = x.type.rank
    if not len(size) == len(stride) == len(dilation) == rank:
        message = f"a window {list(size)} for a tensor of shape {list(x.type.dims)}"
        raise OperatorError("tflite/shape", message)
    for axis, (n, step, apart) in enumerate(zip(size, stride, dilation, strict=True)):
        extent = x.type.dims[axis]
        if min(n, step, apart) < 1 or n > MAX_FOLDED or (n - 1) * apart >= extent:
            message = f"a window {list(size)} with strides {list(stride)} and dilations "
            message += f"{list(dilation)} of a tensor of shape {list(x.type.dims)}"
            raise OperatorError("argument/window", message)
        outputs = (extent - (n - 1) * apart - 1) // step + 1
        parts = [
            slice_in_dim(make, x, axis, i * apart, i * apart + (outputs - 1) * step + 1, step)
            for i in range(n)
        ]
        x = parts[0]
        for part in parts[1:]:
            x = make(operation, x, part)
    return x
