"""Items where a mask holds, and their indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.nonzero import nonzero_first, nonzero_positions, with_count
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import (
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
)
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.operators.elementwise import truth
from nnefc.frontends.torch.operators.movement import broadcast, filled
from nnefc.frontends.torch.registry import OptionalTensors, operator
from nnefc.ir import DType, TensorType


@operator("aten.nonzero.default")
def nonzero(make: OpBuilder, self: Operand) -> Any:
    """Indices [n, rank] of the items that are not 0; a run counts them."""
    if has_no_items(self):
        return EmptyTensor(TensorType(DType.INT64, (0, self.type.rank)))
    if not self.type.rank:
        raise OperatorError("torch/unsupported", "the indices of a number that is not 0")
    return make.transpose(nonzero_positions(make, truth(make, self)), (1, 0))


@operator("aten.nonzero_static.default")
def nonzero_static(make: OpBuilder, self: Operand, size: int, fill_value: int = -1) -> Any:
    """Indices [size, rank] of the items that are not 0, then rows of `fill_value`."""
    rank, volume = self.type.rank, math.prod(self.type.dims)
    if not rank or not volume or not size:
        return filled(make, (size, rank), fill_value, DType.INT64)
    where, count = nonzero_first(make, make.reshape(truth(make, self), (volume,)))
    room = min(size, volume)
    where = slice_in_dim(make, where, 0, 0, room)
    rows = make.reshape(_coordinates(make, where, self.type.dims), (room, rank))
    valid = make.reshape(make("lt", make.iota(room), count), (room, 1))
    rows = make("select", valid, rows, tensor(make, fill_value, DType.INT64))
    rest = filled(make, (size - room, rank), fill_value, DType.INT64)
    return rows if room == size else make("concat", [rows, rest], axis=0)


def _coordinates(make: OpBuilder, flat: Operand, dims: Sequence[int]) -> Operand:
    """The indices [.., rank] of flat indices [..] in a shape."""
    columns: list[Any] = []
    for axis, extent in enumerate(dims):
        index = make("remainder", make("div", flat, math.prod(dims[axis + 1 :])), extent)
        columns.append(make.reshape(index, (*flat.type.dims, 1)))
    return columns[0] if len(columns) == 1 else make("concat", columns, axis=flat.type.rank)


@operator("aten.masked_select.default")
def masked_select(make: OpBuilder, self: Operand, mask: Operand) -> Any:
    """The items where a mask holds; a run counts them."""
    dims = np.broadcast_shapes(self.type.dims, mask.type.dims)
    x, flags = (
        make.reshape(broadcast(make, each, dims), (math.prod(dims),)) for each in (self, mask)
    )
    if has_no_items(x):
        return x
    where, count = nonzero_first(make, flags)
    if isinstance(count, KnownTensor):
        return make("gather", x, with_count(make, where, 0, count), axis=0)
    return with_count(make, make("gather", x, where, axis=0), 0, count)


@operator("aten.masked_scatter.default")
def masked_scatter(make: OpBuilder, self: Operand, mask: Operand, source: Operand) -> Any:
    """The items where a mask holds are those of `source`, in order."""
    dims = np.broadcast_shapes(self.type.dims, mask.type.dims)
    x, flags = broadcast(make, self, dims), broadcast(make, mask, dims)
    if has_no_items(x) or has_no_items(source):
        return x
    flat = make.cast(make.reshape(flags, (math.prod(dims),)), DType.INT64)
    place = make("max", make("sub", running_sum(make, flat, 0), 1), 0)
    place = make("min", place, source.type.volume - 1)
    items = make("gather", make.reshape(source, (source.type.volume,)), place, axis=0)
    return make("select", flags, make.reshape(items, dims), x)


def masked_put(
    make: OpBuilder, x: Operand, indices: OptionalTensors, values: Operand, accumulate: bool
) -> Any:
    """Items replaced where a mask holds, the only index; None for other indices."""
    mask = indices[0] if len(indices) == 1 else None
    if mask is None or mask.type.dtype is not DType.BOOL:
        return None
    rank = mask.type.rank
    new = make.cast(values, x.type.dtype)
    if new.type.rank > x.type.rank - rank and new.type.volume != 1:
        if accumulate or has_no_items(new) or new.type.rank != x.type.rank - rank + 1:
            return None
        return _placed_in_order(make, x, mask, new)
    if accumulate and x.type.dtype is DType.BOOL:
        return None
    flags = make.reshape(mask, (*mask.type.dims, *(1,) * (x.type.rank - rank)))
    if new.type.volume == 1:
        new = make.reshape(new, ())
    new = make.aligned_right(new, x.type.rank) if new.type.rank else new
    return make("select", flags, make("add", x, new) if accumulate else new, x)


def _placed_in_order(make: OpBuilder, x: Operand, mask: Operand, new: Operand) -> Operand:
    """Slices where a mask holds, replaced by new ones in order."""
    count = math.prod(mask.type.dims)
    flat = make.cast(make.reshape(mask, (count,)), DType.INT64)
    place = make("max", make("sub", running_sum(make, flat, 0), 1), 0)
    place = make("min", place, new.type.dims[0] - 1)
    rows = make.reshape(make("gather", new, place, axis=0), (*mask.type.dims, *new.type.dims[1:]))
    flags = make.reshape(mask, (*mask.type.dims, *(1,) * (x.type.rank - mask.type.rank)))
    return make("select", flags, broadcast(make, rows, x.type.dims), x)
