"""Gathers and scatters of slices at computed positions, as StableHLO has them.

Both number dimensions freely.  Dimensions with a position are first here, so that a tensor of
indices [batch .., slice .., positions] selects slices whose other dimensions are whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.stablehlo.bodies import combined_by
from nnefc.frontends.tflite.registry import ANY, Integers, operator
from nnefc.ir import DType


def _positions(
    make: OpBuilder,
    indices: Operand,
    vector: int,
    mapped: Sequence[int],
    order: Sequence[int],
    sizes: Sequence[int],
    dims: Sequence[int],
    *,
    moves_inside: bool,
) -> tuple[Operand, tuple[int, ...]]:
    """Indices [batch .., slice .., count] of items along the dimensions `order`, and the batch.

    `mapped`: the dimension of each position in a vector; others have the position 0.
    """
    rank = indices.type.rank
    if not 0 <= vector <= rank:
        raise OperatorError("tflite/shape", f"there is no dimension {vector} of the indices")
    if vector == rank:
        indices = make.reshape(indices, (*indices.type.dims, 1))
    last = [i for i in range(indices.type.rank) if i != vector] + [vector]
    rows = make.cast(as_indices(make, make.transpose(indices, last)), DType.INT64)
    *batch, count = rows.type.dims
    if count != len(mapped):
        message = f"{count} positions in a vector for {len(mapped)} dimensions"
        raise OperatorError("tflite/shape", message)
    columns = [mapped.index(axis) if axis in mapped else count for axis in order]
    if count in columns:
        zeros = known_array(np.zeros((1,) * len(batch) + (1,)), DType.INT64)
        rows = make("concat", [rows, make.repeated(zeros, (*batch, 1))], axis=len(batch))
    if columns != list(range(len(columns))):
        rows = make("gather", rows, known_array(columns, DType.INT64), axis=len(batch))
    extents = [sizes[axis] for axis in order]
    if moves_inside:
        most = np.array([dims[axis] - sizes[axis] for axis in order])
        bound = known_array(most[(None,) * len(batch)], DType.INT64)
        rows = make("max", make("min", rows, bound), 0)
    if math.prod(extents) > 1:
        grid = np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), axis=-1)
        rows = make.reshape(rows, (*batch, *(1,) * len(order), len(order)))
        rows = make("add", rows, known_array(grid[(None,) * len(batch)], DType.INT64))
    else:
        rows = make.reshape(rows, (*batch, *extents, len(order)))
    return rows, tuple(batch)


def _order(mapped: Sequence[int], sizes: Sequence[int], dims: Sequence[int]) -> list[int]:
    """The dimensions that need indices; raises OperatorError for dimensions that do not exist."""
    every = range(len(dims))
    if len(sizes) != len(dims) or any(not 0 <= n <= m for n, m in zip(sizes, dims, strict=True)):
        raise OperatorError("tflite/shape", f"a slice {list(sizes)} of {list(dims)}")
    if len(set(mapped)) < len(mapped) or not set(mapped) <= set(every):
        raise OperatorError("tflite/shape", f"positions of dimensions {list(mapped)}")
    return [i for i in every if i in mapped or sizes[i] < dims[i]]


@operator("STABLEHLO_GATHER", options="StablehloGatherOptions", types=ANY)
def gather(
    make: OpBuilder,
    x: Operand,
    start_indices: Operand,
    *,
    offset_dims: Integers,
    collapsed_slice_dims: Integers,
    start_index_map: Integers,
    index_vector_dim: int,
    slice_sizes: Integers,
) -> Any:
    """Slices at positions, which are moved inside; the results are batch and slice dimensions."""
    dims, collapsed = x.type.dims, set(collapsed_slice_dims)
    order = _order(start_index_map, slice_sizes, dims)
    kept = [i for i in range(len(dims)) if i not in collapsed]
    if len(offset_dims) != len(kept) or any(slice_sizes[i] != 1 for i in collapsed):
        message = f"slices {list(slice_sizes)} without the dimensions {sorted(collapsed)}"
        raise OperatorError("tflite/shape", f"{message} as dimensions {list(offset_dims)}")
    where, batch = _positions(
        make,
        start_indices,
        index_vector_dim,
        start_index_map,
        order,
        slice_sizes,
        dims,
        moves_inside=True,
    )
    rest = [i for i in range(len(dims)) if i not in order]
    found = make("gather_nd", make.transpose(x, [*order, *rest]), where) if order else x
    if not order:
        found = make.repeated(make.reshape(x, (*(1,) * len(batch), *dims)), (*batch, *dims))
    inner = [*order, *rest]
    names = [i for i in inner if i in kept]
    shape = (*batch, *(slice_sizes[i] for i in names))
    y = make.reshape(found, shape)
    rank = len(shape)
    places = dict(zip(kept, offset_dims, strict=True))
    outer = iter(range(len(batch)))
    sources: list[int] = []
    for place in range(rank):
        axis = next((i for i in kept if places[i] == place), None)
        sources.append(next(outer, -1) if axis is None else len(batch) + names.index(axis))
    if sorted(sources) != list(range(rank)):
        raise OperatorError("tflite/shape", f"offset_dims = {list(offset_dims)} of rank {rank}")
    return make.transpose(y, sources)


@operator("STABLEHLO_SCATTER", options="StablehloScatterOptions", types=ANY)
def scatter(
    make: OpBuilder,
    x: Operand,
    indices: Operand,
    updates: Operand,
    *,
    update_window_dims: Integers,
    inserted_window_dims: Integers,
    scatter_dims_to_operand_dims: Integers,
    index_vector_dim: int,
    update_computation_subgraph_index: int,
) -> Any:
    """Slices at positions are replaced by updates, or combined with them."""
    reduction = _reduction(make, update_computation_subgraph_index)
    dims, inserted = x.type.dims, set(inserted_window_dims)
    kept = [i for i in range(len(dims)) if i not in inserted]
    rank = updates.type.rank
    if len(update_window_dims) != len(kept) or any(not 0 <= i < rank for i in update_window_dims):
        message = f"updates {list(updates.type.dims)} with the slices {list(update_window_dims)}"
        raise OperatorError("tflite/shape", f"{message} of {list(dims)}")
    places = dict(zip(kept, update_window_dims, strict=True))
    sizes = [updates.type.dims[places[i]] if i in places else 1 for i in range(len(dims))]
    order = _order(scatter_dims_to_operand_dims, sizes, dims)
    where, batch = _positions(
        make,
        indices,
        index_vector_dim,
        scatter_dims_to_operand_dims,
        order,
        sizes,
        dims,
        moves_inside=False,
    )
    rest = [i for i in range(len(dims)) if i not in order]
    inner = [*order, *rest]
    outer = [i for i in range(rank) if i not in update_window_dims]
    turned = make.transpose(updates, [*outer, *(places[i] for i in inner if i in places)])
    if turned.type.dims[: len(outer)] != batch:
        message = f"updates {list(updates.type.dims)} for positions {list(batch)}"
        raise OperatorError("tflite/shape", message)
    new = make.reshape(turned, (*batch, *(sizes[i] for i in inner)))
    y = make("scatter_nd", make.transpose(x, inner), where, new, reduction=reduction)
    return make.transpose(y, [inner.index(i) for i in range(len(dims))])


def _reduction(make: OpBuilder, index: int) -> str:
    """How `scatter_nd` combines items; a subgraph that returns its second input replaces them."""
    subgraphs = make.evaluator.build.model.subgraphs
    if 0 <= index < len(subgraphs):
        body = subgraphs[index]
        if not body.operators and tuple(body.outputs) == tuple(body.inputs[1:2]):
            return "none"
    operation = combined_by(make, index)
    if operation in ("and", "or"):
        raise OperatorError("tflite/unsupported", "logical operations of updates")
    return operation
