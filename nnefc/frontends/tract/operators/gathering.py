"""Gather, scatter and top-k."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.indices import as_indices, gather
from nnefc.frontends.common.values import Operand, named_type
from nnefc.frontends.tract.registry import NO_TYPE, TypeName, operator
from nnefc.ir import DType


@operator("tract_core")
def tract_core_gather(
    make: OpBuilder, input: Operand, indices: Operand, axis: int = 0, datum_type: TypeName = NO_TYPE
) -> Any:
    at = normalize_axis(axis, input.type.rank)
    y = gather(make, input, indices, at)
    return make.cast(y, named_type(datum_type).dtype) if datum_type else y


@operator("tract_core")
def tract_core_gather_elements(make: OpBuilder, input: Operand, indices: Operand, axis: int) -> Any:
    at = normalize_axis(axis, input.type.rank)
    return make("gather_elements", input, as_indices(make, indices), axis=at)


@operator("tract_core")
def tract_core_gather_nd(
    make: OpBuilder, input: Operand, indices: Operand, batch_dims: int = 0
) -> Any:
    return make("gather_nd", input, as_indices(make, indices), batch_dims=batch_dims)


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
    where = as_indices(make, indices)
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
    return make("scatter_nd", input, as_indices(make, indices), updates, reduction=reduction)


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
