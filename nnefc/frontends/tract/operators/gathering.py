"""Gather, scatter and top-k."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, named_type
from nnefc.frontends.tract.registry import NO_TYPE, TypeName, operator
from nnefc.ir import DType


def _indices(make: OpBuilder, x: Operand) -> Operand:
    """Indices as int32 or int64."""
    return x if x.type.dtype in (DType.INT32, DType.INT64) else make.cast(x, DType.INT64)


@operator("tract_core")
def tract_core_gather(
    make: OpBuilder, input: Operand, indices: Operand, axis: int = 0, datum_type: TypeName = NO_TYPE
) -> Any:
    at = normalize_axis(axis, input.type.rank)
    where = _indices(make, indices)
    if isinstance(where, KnownTensor):
        where = KnownTensor(_from_front(where.array, input.type.dims[at]), where.dtype)
    y = make("gather", input, where, axis=at)
    return make.cast(y, named_type(datum_type).dtype) if datum_type else y


def _from_front(indices: Array, extent: int) -> Array:
    """Known indices with negative ones resolved; raises OperatorError if one is out of range."""
    from_end = indices < 0
    resolved: Array = np.where(from_end, indices + extent, indices) if from_end.any() else indices
    if resolved.size and not (resolved >= 0).all() & (resolved < extent).all():
        wrong = indices[(resolved < 0) | (resolved >= extent)].reshape(-1)[0]
        raise OperatorError("argument/gather", f"index {wrong} is outside an extent of {extent}")
    return resolved


@operator("tract_core")
def tract_core_gather_elements(make: OpBuilder, input: Operand, indices: Operand, axis: int) -> Any:
    at = normalize_axis(axis, input.type.rank)
    return make("gather_elements", input, _indices(make, indices), axis=at)


@operator("tract_core")
def tract_core_gather_nd(
    make: OpBuilder, input: Operand, indices: Operand, batch_dims: int = 0
) -> Any:
    return make("gather_nd", input, _indices(make, indices), batch_dims=batch_dims)


@operator("tract_core")
def tract_core_scatter_elements(
    make: OpBuilder,
    input: Operand,
    indices: Operand,
    updates: Operand,
    axis: int,
    reduction: str = "none",
) -> Any:
    """The input with updates at indices along an axis.

    As in PyTorch, surplus updates are ignored, and a scalar update is written at all indices.
    """
    at = normalize_axis(axis, input.type.rank)
    input, updates = make.unified(input, updates)
    where = _indices(make, indices)
    if updates.type.rank == 0:
        one = make.reshape(updates, (1,) * where.type.rank)
        updates = make.repeated(one, where.type.dims)
    elif updates.type.rank == where.type.rank:
        for i, extent in enumerate(where.type.dims):
            if updates.type.dims[i] > extent:
                updates = slice_in_dim(make, updates, i, 0, extent)
    return make("scatter_elements", input, where, updates, axis=at, reduction=reduction)


@operator("tract_core")
def tract_core_scatter_nd(
    make: OpBuilder, input: Operand, indices: Operand, updates: Operand, reduction: str = "none"
) -> Any:
    input, updates = make.unified(input, updates)
    return make("scatter_nd", input, _indices(make, indices), updates, reduction=reduction)


@operator("tract_core")
def tract_core_topk(
    make: OpBuilder, input: Operand, k: int, axis: int, largest: bool = True
) -> Any:
    at = normalize_axis(axis, input.type.rank)
    dtype = input.type.dtype
    if dtype is DType.BOOL:
        values, positions = make(
            "topk", make.cast(input, DType.UINT8), k=k, axis=at, largest=largest
        )
        return make.cast(values, dtype), positions
    return make("topk", input, k=k, axis=at, largest=largest)
