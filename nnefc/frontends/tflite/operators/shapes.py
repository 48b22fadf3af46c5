"""Shapes as tensors, and tensors made of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.indices import as_indices
from nnefc.frontends.common.values import Operand, OperatorError, integer_array
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.registry import ANY, CODES, NUMBERS, Integers, Node, known, operator
from nnefc.frontends.tflite.tensors import dtype_of


@operator("SHAPE", types=ANY)
def shape(make: OpBuilder, input: Operand, node: Node) -> Any:
    del make
    return known_array(integer_array(input.type.dims), dtype_of(node.output))


@operator("RANK", types=ANY)
def rank(make: OpBuilder, input: Operand, node: Node) -> Any:
    del make
    return known_array(input.type.rank, dtype_of(node.output))


@operator("DENSIFY", types=ANY)
def densify(make: OpBuilder, input: Operand) -> Any:
    """A sparse constant, which is dense already when it is read."""
    del make
    return input


@operator("FILL", types=ANY, typed_by=1)
def fill(make: OpBuilder, dims: Integers, value: Operand) -> Any:
    check_shape(make, "dims", dims, value.type.dtype)
    return make.repeated(make.reshape(value, (1,) * len(dims)), dims)


@operator("ZEROS_LIKE", types=NUMBERS)
def zeros_like(make: OpBuilder, input: Operand) -> Any:
    zero = known_array(np.zeros((1,) * input.type.rank), input.type.dtype)
    return make.repeated(zero, input.type.dims)


@operator("RANGE", types=NUMBERS)
def range_(make: OpBuilder, start: Operand, limit: Operand, delta: Operand, node: Node) -> Any:
    """start, start + delta, ... before the limit; all must be constants."""
    dtype = dtype_of(node.output)
    first, end, step = (known(x, "a bound").array.reshape(-1)[:1] for x in (start, limit, delta))
    if not (first.size and end.size and step.size) or not float(step[0]):
        raise OperatorError("argument/range", "the step is 0, or a bound is missing")
    count = (float(end[0]) - float(first[0])) / float(step[0])
    if not math.isfinite(count):
        raise OperatorError("argument/range", "the bounds are not finite")
    items = max(math.ceil(count), 0)
    check_shape(make, "range", (items,), dtype)
    make.budget.take_items(items)
    return known_array(first[0] + step[0] * np.arange(items, dtype=first.dtype), dtype)


@operator("ONE_HOT", options="OneHotOptions", types=ANY, typed_by=2)
def one_hot(
    make: OpBuilder,
    indices: Operand,
    depth: Integers,
    on_value: Operand,
    off_value: Operand,
    *,
    axis: int,
) -> Any:
    """A new dimension of `depth` items, of which the one at the index is on_value."""
    if len(depth) != 1 or depth[0] < 1:
        raise OperatorError("argument/one_hot", f"depth = {list(depth)}")
    rank = indices.type.rank
    at = normalize_axis(axis, rank, extra=1)
    dims = indices.type.dims
    places = make.reshape(as_indices(make, indices), (*dims[:at], 1, *dims[at:]))
    line = known_array(np.arange(depth[0]), places.type.dtype)
    line = make.reshape(line, tuple(depth[0] if i == at else 1 for i in range(rank + 1)))
    return make("select", make("eq", places, line), on_value, off_value)


@operator("SPARSE_TO_DENSE", types=ANY, typed_by=2)
def sparse_to_dense(
    make: OpBuilder,
    indices: Operand,
    output_shape: Integers,
    values: Operand,
    default_value: Operand,
) -> Any:
    """Values at indices [n, rank], of a tensor whose other items are the default."""
    rank = len(output_shape)
    check_shape(make, "output_shape", output_shape, values.type.dtype)
    count = indices.type.dims[0] if indices.type.rank else 1
    if count * rank != indices.type.volume:
        message = f"indices have shape {list(indices.type.dims)} for a tensor of rank {rank}"
        raise OperatorError("tflite/shape", message)
    places = make.reshape(as_indices(make, indices), (count, rank))
    given = make.reshape(values, (1,)) if not values.type.rank else values
    updates = make.repeated(given, (count,)) if given.type.dims == (1,) else given
    base = make.repeated(make.reshape(default_value, (1,) * rank), output_shape)
    return make("scatter_nd", base, places, updates)


@operator("SCATTER_ND", types=(*NUMBERS, *CODES), typed_by=1)
def scatter_nd(make: OpBuilder, indices: Operand, updates: Operand, shape: Integers) -> Any:
    """Sums of updates at indices, of a tensor of zeros."""
    check_shape(make, "shape", shape, updates.type.dtype)
    zero = known_array(np.zeros((1,) * len(shape)), updates.type.dtype)
    base = make.repeated(zero, shape)
    return make("scatter_nd", base, as_indices(make, indices), updates, reduction="add")
