"""Operators of StableHLO that move items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.values import Operand, OperatorError, scalar
from nnefc.frontends.tflite.operands import as_type_of, known_array
from nnefc.frontends.tflite.operators.movement import concatenated
from nnefc.frontends.tflite.operators.selections import dynamic_update_slice
from nnefc.frontends.tflite.registry import ANY, Integers, Node, known, operator
from nnefc.frontends.tflite.window_folds import spread
from nnefc.ir import DType


@operator("STABLEHLO_RESHAPE", types=ANY)
def reshape(make: OpBuilder, x: Operand, node: Node) -> Any:
    """The shape is that of the result in the file."""
    shape = node.output.shape
    if x.type.volume != math.prod(shape):
        message = f"{list(x.type.dims)} does not become {list(shape)}"
        raise OperatorError("tflite/shape", message)
    return make.reshape(x, shape)


@operator("STABLEHLO_TRANSPOSE", options="StablehloTransposeOptions", types=ANY)
def transpose(make: OpBuilder, x: Operand, *, permutation: Integers) -> Any:
    if sorted(permutation) != list(range(x.type.rank)):
        message = f"{list(permutation)} is no order of {x.type.rank} dimensions"
        raise OperatorError("argument/transpose", message)
    return make.transpose(x, permutation)


@operator("STABLEHLO_CONCATENATE", options="StablehloConcatenateOptions", types=ANY)
def concatenate(make: OpBuilder, *values: Operand, dimension: int) -> Any:
    return concatenated(make, values, dimension)


@operator("STABLEHLO_BROADCAST_IN_DIM", options="StablehloBroadcastInDimOptions", types=ANY)
def broadcast_in_dim(
    make: OpBuilder, x: Operand, *, broadcast_dimensions: Integers, node: Node
) -> Any:
    """Dimension i of the operand is dimension `broadcast_dimensions[i]` of the result."""
    shape, own = node.output.shape, x.type.dims
    rank, where = len(shape), broadcast_dimensions
    good = len(where) == len(own) and sorted(set(where)) == sorted(where)
    if not good or any(
        not 0 <= i < rank or n not in (1, shape[i]) for i, n in zip(where, own, strict=True)
    ):
        message = f"{list(own)} does not become {list(shape)} by dimensions {list(where)}"
        raise OperatorError("tflite/shape", message)
    order = sorted(range(len(where)), key=where.__getitem__)
    spaced = [1] * rank
    for i, n in zip(where, own, strict=True):
        spaced[i] = n
    return make.repeated(make.reshape(make.transpose(x, order), spaced), shape)


@operator("STABLEHLO_SLICE", options="StablehloSliceOptions", types=ANY)
def slice_(
    make: OpBuilder,
    x: Operand,
    *,
    start_indices: Integers,
    limit_indices: Integers,
    strides: Integers,
) -> Any:
    rows = list(zip(x.type.dims, start_indices, limit_indices, strides, strict=False))
    if len(rows) < x.type.rank or any(
        not 0 <= first <= end <= n or step < 1 for n, first, end, step in rows
    ):
        bounds = f"{list(start_indices)} to {list(limit_indices)} by {list(strides)}"
        raise OperatorError("tflite/shape", f"a slice {bounds} of {list(x.type.dims)}")
    for axis, (_, first, end, step) in enumerate(rows):
        x = slice_in_dim(make, x, axis, first, end, step)
    return x


@operator("STABLEHLO_DYNAMIC_SLICE", options="StablehloDynamicSliceOptions", types=ANY)
def dynamic_slice(
    make: OpBuilder, x: Operand, *start_indices: Operand, slice_sizes: Integers
) -> Any:
    """A slice that is moved inside where it would reach outside."""
    dims, start = x.type.dims, _joined(make, x, start_indices)
    if len(slice_sizes) != len(dims) or any(
        not 0 < size <= n for size, n in zip(slice_sizes, dims, strict=True)
    ):
        raise OperatorError("tflite/shape", f"a slice {list(slice_sizes)} of {list(dims)}")
    if not dims:
        return x
    most = known_array(np.subtract(dims, slice_sizes), DType.INT64)
    first = make("max", make("min", start, most), 0)
    for axis, size in enumerate(slice_sizes):
        if size == dims[axis]:
            continue
        at = slice_in_dim(make, first, 0, axis, axis + 1)
        where = make("add", at, known_array(np.arange(size), DType.INT64))
        x = make("gather", x, where, axis=axis)
    return x


@operator("STABLEHLO_DYNAMIC_UPDATE_SLICE", types=ANY)
def update_slice(make: OpBuilder, x: Operand, update: Operand, *start_indices: Operand) -> Any:
    return dynamic_update_slice(make, x, update, _joined(make, x, start_indices))


def _joined(make: OpBuilder, x: Operand, indices: tuple[Operand, ...]) -> Operand:
    """One number for each dimension, as a tensor [rank]."""
    if len(indices) != x.type.rank:
        message = f"{len(indices)} numbers for a tensor of shape {list(x.type.dims)}"
        raise OperatorError("tflite/arguments", message)
    if not indices:
        return known_array(np.zeros(0), DType.INT64)
    rows = [make.reshape(make.cast(as_indices(make, i), DType.INT64), (1,)) for i in indices]
    return rows[0] if len(rows) == 1 else make("concat", rows, axis=0)


@operator("STABLEHLO_PAD", options="StablehloPadOptions", types=ANY)
def pad(
    make: OpBuilder,
    x: Operand,
    padding_value: Operand,
    *,
    edge_padding_low: Integers,
    edge_padding_high: Integers,
    interior_padding: Integers,
) -> Any:
    """Padding between items, then around them; negative padding cuts."""
    filler = scalar(known(padding_value, "padding_value"))
    every = edge_padding_low, edge_padding_high, interior_padding
    if any(len(each) != x.type.rank for each in every):
        message = f"padding {[list(each) for each in every]} of {list(x.type.dims)}"
        raise OperatorError("tflite/shape", message)
    y = spread(make, x, [1 + n for n in interior_padding], filler)
    pairs = tuple(zip(edge_padding_low, edge_padding_high, strict=True))
    return make("pad", y, padding=pairs, border="constant", value=filler)


@operator("STABLEHLO_IOTA", options="StablehloIotaOptions", types=ANY)
def iota(make: OpBuilder, *, iota_dimension: int, node: Node) -> Any:
    """Each item is its index along a dimension."""
    shape = node.output.shape
    if not 0 <= iota_dimension < len(shape):
        message = f"there is no dimension {iota_dimension} of {list(shape)}"
        raise OperatorError("tflite/shape", message)
    own = [n if i == iota_dimension else 1 for i, n in enumerate(shape)]
    numbers = as_type_of(make, make.iota(shape[iota_dimension]), node.output)
    return make.repeated(make.reshape(numbers, own), shape)
