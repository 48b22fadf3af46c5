"""Positions of items that are not zero, and tensors whose valid items a run counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import take_room
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.ir import DType


def nonzero_positions(make: OpBuilder, x: Operand) -> Operand:
    """Indices [rank, n] of the items that are not zero, in row-major order.

    The result has room for all items; the graph counts the valid columns.
    """
    dims = x.type.dims
    volume = math.prod(dims)
    take_room(make.budget, volume)
    if isinstance(x, KnownTensor):
        indices = np.stack(np.nonzero(x.array)).astype(np.int64)
        return KnownTensor(indices.reshape(len(dims), -1), DType.INT64)
    flat = make.reshape(x, (volume,))
    is_set = flat if flat.type.dtype is DType.BOOL else make("ne", flat, 0)
    where, count = nonzero_first(make, is_set)
    rows: list[Any] = []
    for axis in range(len(dims)):
        step = math.prod(dims[axis + 1 :])
        index = make("remainder", make("div", where, step), dims[axis])
        rows.append(make.reshape(index, (1, volume)))
    result = make("concat", rows, axis=0) if len(rows) > 1 else rows[0]
    return with_count(make, result, 1, count)


def nonzero_first(make: OpBuilder, flags: Operand) -> tuple[Operand, Operand]:
    """(indices [n], count) of boolean flags [n]: indices of set flags first, and their number.

    Both groups of indices are in ascending order.
    """
    (volume,) = flags.type.dims
    index, after = make.iota(volume), make.iota(volume, volume)
    keys, _ = make("topk", make("select", flags, index, after), k=volume, axis=0, largest=False)
    where = make("select", make("lt", keys, volume), keys, make("sub", keys, volume))
    count = make("sum_reduce", make.cast(flags, DType.INT64), axes=(0,))
    return where, make.reshape(count, ())


def with_count(make: OpBuilder, x: Operand, axis: int, count: Operand) -> Operand:
    """A tensor of which the first `count` items along an axis are valid; cut if that is known."""
    if isinstance(count, KnownTensor):
        return slice_in_dim(make, x, axis, 0, count.array.item())
    value = make.value(x, may_be_empty=True)
    make.counted[value] = axis, make.value(count)
    return value
