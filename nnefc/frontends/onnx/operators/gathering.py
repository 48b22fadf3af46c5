"""Gather, scatter, one-hot and top-k."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.operators.indices import gather as gather_in_dim
from nnefc.frontends.common.values import Operand
from nnefc.frontends.onnx.registry import operator


@operator("Gather")
def gather(make: OpBuilder, data: Operand, indices: Operand, *, axis: int = 0) -> Any:
    return gather_in_dim(make, data, indices, normalize_axis(axis, data.type.rank))


@operator("GatherElements", since=11)
def gather_elements(make: OpBuilder, data: Operand, indices: Operand, *, axis: int = 0) -> Any:
    at = normalize_axis(axis, data.type.rank)
    return make("gather_elements", data, as_indices(make, indices), axis=at)


@operator("GatherND", since=11, until=11)
def gather_nd_11(make: OpBuilder, data: Operand, indices: Operand) -> Any:
    return gather_nd(make, data, indices)


@operator("GatherND", since=12)
def gather_nd(make: OpBuilder, data: Operand, indices: Operand, *, batch_dims: int = 0) -> Any:
    return make("gather_nd", data, as_indices(make, indices), batch_dims=batch_dims)
