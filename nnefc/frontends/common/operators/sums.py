"""Cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand


def running_sum(
    make: OpBuilder,
    x: Operand,
    at: int,
    *,
    reverse: bool = False,
    operation: str | Callable[[OpBuilder, Operand, Operand], Operand] = "add",
) -> Operand:
    """The inclusive cumulative sum along an axis, from the end if `reverse`.

    `operation`: "mul" for the cumulative product, or another associative function.

    A parallel prefix sum (Hillis and Steele 1986): step i adds the sums of the preceding 2^i items.
    """
    extent = x.type.dims[at]
    sums, reach = x, 1
    while reach < extent:
        first, last = (
            slice_in_dim(make, sums, at, 0, extent - reach),
            slice_in_dim(make, sums, at, reach, extent),
        )
        is_name = isinstance(operation, str)
        added = make(operation, first, last) if is_name else operation(make, first, last)
        if reverse:
            pieces = [added, slice_in_dim(make, sums, at, extent - reach, extent)]
        else:
            pieces = [slice_in_dim(make, sums, at, 0, reach), added]
        sums = make("concat", pieces, axis=at)
        reach *= 2
    return sums


def cumulative(
    make: OpBuilder,
    x: Operand,
    at: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    operation: str = "add",
) -> Operand:
    """`running_sum`; `exclusive` leaves out the item at each index."""
    extent = x.type.dims[at]
    sums = running_sum(make, x, at, reverse=reverse, operation=operation)
    if not exclusive or not extent:
        return sums
    dtype = x.type.dtype
    dims = tuple(1 if i == at else n for i, n in enumerate(x.type.dims))
    one = KnownTensor(np.full((1,) * len(dims), operation == "mul", dtype.numpy), dtype)
    start = make.repeated(one, dims)
    if extent == 1:
        return start
    if reverse:
        pieces = [slice_in_dim(make, sums, at, 1, extent), start]
    else:
        pieces = [start, slice_in_dim(make, sums, at, 0, extent - 1)]
    return make("concat", pieces, axis=at)
