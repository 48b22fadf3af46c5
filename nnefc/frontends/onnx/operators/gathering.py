"""Gather and scatter, one-hot, top-k, reversed sequences."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.computed_extents import with_bounds
from nnefc.frontends.common.operators.counted_numbers import has_counts
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.operators.indices import gather as gather_in_dim
from nnefc.frontends.common.values import (
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    integers,
    operand,
)
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType, TensorType
from nnefc.symbolic.counted_extent import CountedExtent
from nnefc.symbolic.integers import smallest


@operator("Gather")
def gather(make: OpBuilder, data: Operand, indices: Operand, *, axis: int = 0) -> Any:
    return gather_in_dim(make, data, indices, normalize_axis(axis, data.type.rank))


@operator("GatherElements", since=11)
def gather_elements(make: OpBuilder, data: Operand, indices: Operand, *, axis: int = 0) -> Any:
    at = normalize_axis(axis, data.type.rank)
    return make("gather_elements", data, as_indices(make, indices), axis=at)


@operator("GatherND", since=11, until=11)
@operator("GatherND", domain=MICROSOFT)
def gather_nd_11(make: OpBuilder, data: Operand, indices: Operand) -> Any:
    return gather_nd(make, data, indices)


@operator("GatherND", since=12)
def gather_nd(make: OpBuilder, data: Operand, indices: Operand, *, batch_dims: int = 0) -> Any:
    return make("gather_nd", data, as_indices(make, indices), batch_dims=batch_dims)


# -- scatter


@operator("Scatter", since=9, until=10)
@operator("ScatterElements", since=11, until=15)
def scatter_elements_11(
    make: OpBuilder, data: Operand, indices: Operand, updates: Operand, *, axis: int = 0
) -> Any:
    return scatter_elements(make, data, indices, updates, axis=axis)


@operator("ScatterElements", since=16)
def scatter_elements(
    make: OpBuilder,
    data: Operand,
    indices: Operand,
    updates: Operand,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> Any:
    at, where = normalize_axis(axis, data.type.rank), as_indices(make, indices)
    return make("scatter_elements", data, where, updates, axis=at, reduction=reduction)


@operator("ScatterND", since=11, until=15)
def scatter_nd_11(make: OpBuilder, data: Operand, indices: Operand, updates: Operand) -> Any:
    return scatter_nd(make, data, indices, updates)


@operator("ScatterND", since=16)
def scatter_nd(
    make: OpBuilder, data: Operand, indices: Operand, updates: Operand, *, reduction: str = "none"
) -> Any:
    return make("scatter_nd", data, as_indices(make, indices), updates, reduction=reduction)


@operator("TensorScatter", since=24)
def tensor_scatter(
    make: OpBuilder,
    past_cache: Operand,
    update: Operand,
    write_indices: Operand | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Any:
    """A cache in which each batch has an update from an index of its own along `axis`."""
    rank = past_cache.type.rank
    at = normalize_axis(axis, rank)
    if mode not in ("linear", "circular") or at == 0 or update.type.rank != rank:
        message = f"mode = '{mode}', axis = {axis}, update of rank {update.type.rank}"
        hint = "the mode is linear or circular, the axis not that of the batch"
        raise OperatorError("argument/tensor_scatter", message, hint)
    order = (0, at, *(i for i in range(1, rank) if i != at))
    cache, new = make.transpose(past_cache, order), make.transpose(update, order)
    batch, length, *_ = cache.type.dims
    count = new.type.dims[1]
    starts = make.iota(1, 0) if write_indices is None else as_indices(make, write_indices)
    starts = make.cast(make.reshape(starts, (starts.type.volume, 1)), DType.INT64)
    where = make("add", starts, make.reshape(make.iota(count), (1, count)))
    if mode == "circular":
        where = make("remainder", where, length)
    where = make.reshape(make.repeated(where, (batch, count)), (batch, count, 1))
    batches = make.repeated(make.reshape(make.iota(batch), (batch, 1, 1)), (batch, count, 1))
    result = make("scatter_nd", cache, make("concat", [batches, where], axis=2), new)
    return make.transpose(result, [order.index(i) for i in range(rank)])


# -- order


@operator("OneHot", since=9)
def one_hot(
    make: OpBuilder, indices: Operand, depth: int, values: Operand, *, axis: int = -1
) -> Any:
    """values[1] at the indices along a new axis, values[0] elsewhere; out of range is nowhere."""
    dims = indices.type.dims
    at = normalize_axis(axis, len(dims), extra=1)
    if values.type.dims != (2,):
        message = f"values has shape {list(values.type.dims)}, not [2]"
        raise OperatorError("argument/one_hot", message)
    if depth < 0:
        raise OperatorError("argument/one_hot", f"depth = {depth}")
    where = make.cast(indices, DType.INT64)
    where = make("select", make("lt", where, 0), make("add", where, depth), where)
    where = make.reshape(where, (*dims[:at], 1, *dims[at:]))
    numbers = make.reshape(make.iota(depth), (1,) * at + (depth,) + (1,) * (len(dims) - at))
    off, on = (make.reshape(slice_in_dim(make, values, 0, i, i + 1), ()) for i in range(2))
    return make("select", make("eq", where, numbers), on, off)


@operator("TopK", until=9)
def top_k_1(make: OpBuilder, X: Operand, *, k: int, axis: int = -1) -> Any:
    return top_k(make, X, operand(k), axis=axis)


@operator("TopK", since=10, until=10)
def top_k_10(make: OpBuilder, X: Operand, K: Operand, *, axis: int = -1) -> Any:
    return top_k(make, X, K, axis=axis)


@operator("TopK", since=11)
def top_k(
    make: OpBuilder,
    X: Operand,
    K: Operand,
    *,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Any:
    """The items are also sorted if that is not wanted; equal items keep their order."""
    del sorted
    at = normalize_axis(axis, X.type.rank)
    if K.type.volume != 1:
        message = f"k has {K.type.volume} items; one is expected"
        raise OperatorError("argument/topk", message)
    number = with_bounds(make, make.reshape(K, (1,))) if has_counts(K) else K
    if isinstance(number, KnownTensor) and has_counts(number):
        return _counted_top_k(make, X, number.array[0], at, largest=largest)
    return _top_k(make, X, integers(number)[0], at, largest=largest)


def _counted_top_k(make: OpBuilder, X: Operand, K: CountedExtent, at: int, *, largest: bool) -> Any:
    """As many items as a run tells, with room for `K`."""
    room = smallest([X.type.dims[at], int(K)])
    results = _top_k(make, X, room, at, largest=largest)
    for each in results:
        y = make.value(each)
        valid = make.counted[y][1] if y in make.counted else room
        make.counted[y] = at, make.value(make("min", K.count, valid))
    return results


def _top_k(make: OpBuilder, X: Operand, K: int, at: int, *, largest: bool) -> Any:
    if K == 0:
        dims = tuple(0 if i == at else extent for i, extent in enumerate(X.type.dims))
        return tuple(EmptyTensor(TensorType(t, dims)) for t in (X.type.dtype, DType.INT64))
    return make("topk", X, k=K, axis=at, largest=largest)


@operator("ReverseSequence", since=10)
def reverse_sequence(
    make: OpBuilder,
    input: Operand,
    sequence_lens: Operand,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> Any:
    """The first `sequence_lens[b]` items along the time of each batch b, reversed."""
    rank = input.type.rank
    batch, time = (normalize_axis(axis, rank) for axis in (batch_axis, time_axis))
    if batch == time or sequence_lens.type.dims != (input.type.dims[batch],):
        message = (
            f"batch_axis = {batch_axis}, time_axis = {time_axis}, sequence_lens has shape "
            f"{list(sequence_lens.type.dims)}"
        )
        hint = "the axes differ, and each batch has a length"
        raise OperatorError("argument/reverse_sequence", message, hint)
    order = (batch, time, *(i for i in range(rank) if i not in (batch, time)))
    x = make.transpose(input, order)
    count, steps, *_ = x.type.dims
    lengths = make.reshape(make.cast(sequence_lens, DType.INT64), (count, 1))
    index = make.reshape(make.iota(steps), (1, steps))
    mirrored = make("sub", make("sub", lengths, 1), index)
    where = make("select", make("lt", index, lengths), mirrored, index)
    y = make("gather_nd", x, make.reshape(where, (count, steps, 1)), batch_dims=1)
    return make.transpose(y, [order.index(i) for i in range(rank)])
