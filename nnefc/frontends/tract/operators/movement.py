"""Reshape, transpose, concatenate, slice, pad, tile and broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import not_empty, of_rank_at_least, take_room
from nnefc.frontends.common.operators.axes import normalize_axes, normalize_axis, slice_in_dim
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
    integers,
    operand,
)
from nnefc.frontends.tract.quantization import as_real
from nnefc.frontends.tract.registry import Operands, Pairs, operator
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence
from nnefc.symbolic.integers import SymInt, largest, smallest

BORDERS: Final = {"replicated": "replicate", "edge": "replicate"}
"""tract's names of NNEF's borders."""


@operator("tract_nnef")
def reshape(
    make: OpBuilder,
    input: Operand,
    shape: tuple[int, ...],
    axis_start: int = 0,
    axis_count: int = -1,
) -> Any:
    """Only the `axis_count` dimensions from `axis_start` on change; by default all."""
    dims = input.type.dims
    start = normalize_axis(axis_start, len(dims), extra=1) if axis_start < 0 else axis_start
    end = len(dims) if axis_count < 0 else start + axis_count
    if not 0 <= start <= end <= len(dims):
        message = f"axis_start = {axis_start}, axis_count = {axis_count} for rank {len(dims)}"
        raise OperatorError("argument/reshape", message)
    middle: list[int] = []
    for i, extent in enumerate(shape):
        if extent == 0 and start + i < end and 0 not in dims:
            extent = dims[start + i]
        middle.append(extent)
    if middle.count(-1) == 1:
        rest, given = math.prod(dims[start:end]), -math.prod(middle)
        if given and rest % given == 0:
            middle[middle.index(-1)] = rest // given
    full = (*dims[:start], *middle, *dims[end:])
    if math.prod(full) != math.prod(dims) or any(n < 0 for n in full):
        message = f"{list(dims)} cannot be reshaped to {list(full)}"
        raise OperatorError("argument/reshape", message, "the number of items stays the same")
    return make.reshape(input, full)


@operator("tract_nnef")
def squeeze(make: OpBuilder, input: Operand, axes: tuple[int, ...]) -> Any:
    dims = list(input.type.dims)
    where = normalize_axes(axes, len(dims))
    if len(set(where)) < len(where):
        raise OperatorError("argument/squeeze", f"axes = {list(axes)} name a dimension twice")
    for axis in sorted(where, reverse=True):
        if dims[axis] != 1:
            raise OperatorError("argument/squeeze", f"axis {axis} has extent {dims[axis]}, not 1")
        del dims[axis]
    return make.reshape(input, dims)


@operator("tract_nnef")
def unsqueeze(make: OpBuilder, input: Operand, axes: tuple[int, ...]) -> Any:
    dims = list(input.type.dims)
    for axis in sorted(axes):
        dims.insert(normalize_axis(axis, len(dims), extra=1), 1)
    return make.reshape(input, dims)


@operator("tract_nnef")
def transpose(make: OpBuilder, input: Operand, axes: tuple[int, ...]) -> Any:
    rank = input.type.rank
    order = normalize_axes(axes, rank)
    order = (*order, *range(len(order), rank))
    if sorted(order) != list(range(rank)):
        raise OperatorError(
            "argument/transpose", f"axes = {list(axes)} is not a permutation of {rank} axes"
        )
    return make.transpose(input, order)


@operator("tract_nnef", quantized=True)
def concat(make: OpBuilder, values: Any, axis: int) -> Any:
    return _concat(make, values, axis)


def _concat(make: OpBuilder, values: Any, axis: int) -> Any:
    """The concatenation of tensors, dequantized and promoted; scalars have one item."""
    items = sequence(values)
    items = [values] if items is None else items
    not_empty("concat", "the array of tensors", items)
    tensors = [as_real(make, x) for x in items]
    tensors = [make.reshape(x, (1,)) if not x.type.rank else x for x in tensors]
    tensors = _without_placeholders(make.unified(*tensors), axis)
    rank = tensors[0].type.rank
    at = normalize_axis(axis, rank)
    if any(x.type.rank != rank for x in tensors):
        raise OperatorError(
            "argument/concat", f"the ranks differ: {[x.type.rank for x in tensors]}"
        )
    return tensors[0] if len(tensors) == 1 else make("concat", tensors, axis=at)


def _without_placeholders(tensors: Sequence[Operand], axis: int) -> list[Operand]:
    """Tensors to concatenate, without those of shape [0] that do not fit the others.

    PyTorch skips tensors of this shape, as in an empty key-value cache; torch_to_nnef adds leading
    extents of 1 to them.
    """
    is_placeholder = [has_no_items(x) and _is_row(x.type.dims) for x in tensors]
    fixed = [x for x, skipped in zip(tensors, is_placeholder, strict=True) if not skipped]
    if not fixed:
        return list(tensors)
    like = fixed[0].type.dims
    at = normalize_axis(axis, len(like))

    def fits(dims: tuple[int, ...]) -> bool:
        return len(dims) == len(like) and all(
            have == want for i, (have, want) in enumerate(zip(dims, like, strict=True)) if i != at
        )

    return [
        x
        for x, skippable in zip(tensors, is_placeholder, strict=True)
        if not skippable or fits(x.type.dims)
    ]


def _is_row(dims: tuple[int, ...]) -> bool:
    """Whether a shape is [0], possibly behind extents of 1."""
    return dims[-1] == 0 and all(extent == 1 for extent in dims[:-1])


@operator("tract_nnef")
def stack(make: OpBuilder, values: Operands, axis: int) -> Any:
    not_empty("stack", "the array of tensors", values)
    tensors = make.unified(*values)
    at = normalize_axis(axis, tensors[0].type.rank, extra=1)
    return _concat(make, tuple(unsqueeze(make, x, (at,)) for x in tensors), at)


@operator("tract_nnef")
def unstack(make: OpBuilder, value: Operand, axis: int) -> Any:
    at = normalize_axis(axis, value.type.rank)
    parts = (slice_in_dim(make, value, at, i, i + 1) for i in range(value.type.dims[at]))
    return tuple(squeeze(make, part, (at,)) for part in parts)


@operator("tract_nnef")
def split(make: OpBuilder, value: Operand, axis: int, ratios: tuple[int, ...]) -> Any:
    at = normalize_axis(axis, value.type.rank)
    extent, whole = value.type.dims[at], sum(ratios)
    if not ratios or min(ratios) < 1 or extent % whole:
        message = f"extent {extent} cannot be split in ratios {list(ratios)}"
        raise OperatorError("argument/split", message)
    chunks: list[Any] = []
    begin = 0
    for ratio in ratios:
        end = begin + extent // whole * ratio
        chunks.append(slice_in_dim(make, value, at, begin, end))
        begin = end
    return tuple(chunks)


@operator("tract_core")
def within_bound_index(make: OpBuilder, index: int, input_axis_size: int) -> Any:
    """An index clamped to [0, size], from the end if negative.

    torch_to_nnef invokes this fragment in documents that roll along a symbolic axis, but does not
    define it.
    """
    del make
    position = index if index >= 0 else index + input_axis_size
    return largest([0, smallest([position, input_axis_size])])


@operator("tract_nnef")
def slice_(
    make: OpBuilder,
    input: Operand,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: Any,
    stride: tuple[int, ...] = (),
) -> Any:
    """Bounds are clamped to the dimension; a literal end of 0 is the end of the dimension."""
    steps = stride or (1,) * len(axes)
    ends = integers(end)
    written = sequence(end) or []
    if not len(axes) == len(begin) == len(ends) == len(steps):
        lengths = f"{len(axes)}, {len(begin)}, {len(ends)}, {len(steps)}"
        raise OperatorError("argument/slice", f"axes, begin, end and stride have lengths {lengths}")
    for i, (axis, first, last, step) in enumerate(zip(axes, begin, ends, steps, strict=True)):
        at = normalize_axis(axis, input.type.rank)
        extent = input.type.dims[at]
        if step < 1:
            raise OperatorError("argument/slice", f"stride = {step}; it must be at least 1")
        first = min(max(first + extent if first < 0 else first, 0), extent)
        if last == 0 and i < len(written) and isinstance(written[i], int | SymInt):
            last = extent
        last = min(max(last + extent if last < 0 else last, 0), extent)
        input = slice_in_dim(make, input, at, first, max(first, last), step)
    return input


@operator("tract_core")
def tract_core_dyn_slice(
    make: OpBuilder, input: Operand, start: int, end: int, len: Any = None, axis: int = 0
) -> Any:
    """A range of indices along one axis; negative bounds count from the end."""
    del len
    at = normalize_axis(axis, input.type.rank)
    extent = input.type.dims[at]
    first = min(max(start + extent if start < 0 else start, 0), extent)
    last = min(max(end + extent if end < 0 else end, first), extent)
    return slice_in_dim(make, input, at, first, last)


@operator("tract_core")
def tract_core_downsample(
    make: OpBuilder, input: Operand, axis: int, stride: int, modulo: int = 0
) -> Any:
    """Every `stride`-th item along an axis, in reverse order if the stride is negative."""
    at = normalize_axis(axis, input.type.rank)
    extent = input.type.dims[at]
    if stride == 0 or not 0 <= modulo < max(extent, 1):
        raise OperatorError(
            "argument/downsample", f"stride = {stride}, modulo = {modulo}, extent {extent}"
        )
    if stride < 0:
        return slice_in_dim(make, input, at, extent - 1 - modulo, -1, stride)
    return slice_in_dim(make, input, at, modulo, extent, stride)


@operator("tract_nnef")
def pad(
    make: OpBuilder,
    input: Operand,
    padding: Pairs,
    border: str = "constant",
    value: float = 0.0,
) -> Any:
    if len(padding) != input.type.rank:
        message = f"padding has {len(padding)} pairs for a tensor of rank {input.type.rank}"
        raise OperatorError("argument/pad", message)
    if border == "constant" and not input.type.dtype.is_float:
        return _pad_constant(make, input, padding, value)
    return make(
        "pad", input, padding=padding, border=BORDERS.get(border, border), value=float(value)
    )


def _pad_constant(make: OpBuilder, x: Operand, padding: Pairs, value: float) -> Operand:
    """Padding of integers and booleans with a constant, by concatenation."""
    for axis, (before, after) in enumerate(padding):
        sides: list[Operand] = []
        for count in (before, after):
            dims = [*x.type.dims]
            dims[axis] = count
            take_room(make.budget, *dims)
            sides.append(KnownTensor(np.full(dims, value).astype(x.type.dtype.numpy), x.type.dtype))
        x = _concat(make, (sides[0], x, sides[1]), axis)
    return x


@operator("tract_nnef")
def tile(make: OpBuilder, input: Operand, repeats: tuple[int, ...]) -> Any:
    rank = input.type.rank
    if len(repeats) != rank or any(n < 0 for n in repeats):
        raise OperatorError(
            "argument/tile", f"repeats = {list(repeats)} for a tensor of rank {rank}"
        )
    if all(r == 1 for r in repeats):
        return input
    return make.tiled(input, repeats)


@operator("tract_core")
def tract_core_broadcast(make: OpBuilder, input: Operand, shape: tuple[int, ...]) -> Any:
    """The input repeated to a shape; dimensions are aligned at the last one, as in NumPy."""
    if any(n < 0 for n in shape):
        raise OperatorError("argument/broadcast", f"shape = {list(shape)} has a negative extent")
    if input.type.rank > len(shape):
        message = f"rank {input.type.rank} does not fit into {list(shape)}"
        raise OperatorError("argument/broadcast", message)
    x = make.aligned_right(input, len(shape))
    if any(have not in (1, want) for have, want in zip(x.type.dims, shape, strict=True)):
        message = f"{list(input.type.dims)} cannot be broadcast to {list(shape)}"
        raise OperatorError("argument/broadcast", message)
    return make.repeated(x, shape)


@operator("tract_core")
def tract_core_trilu(make: OpBuilder, input: Operand, k: int = 0, upper: bool = True) -> Any:
    """The upper or lower triangle of matrices from diagonal `k`, zeros elsewhere."""
    *_, rows, columns = of_rank_at_least("trilu", "input", input, 2)
    column = make.reshape(make.iota(columns), (1, columns))
    offset = min(max(k, -rows), columns)  # clamped against overflow; the result is the same
    diagonal = make.reshape(make.iota(rows, offset), (rows, 1))
    mask = make("ge" if upper else "le", column, diagonal)
    mask = make.aligned_right(mask, input.type.rank)
    return make("select", mask, input, make.cast(operand(0), input.type.dtype))


@operator("tract_core")
def tract_core_one_hot(
    make: OpBuilder,
    input: Operand,
    axis: int,
    dim: int,
    value_off: float = 0.0,
    value_on: float = 1.0,
) -> Any:
    """`value_on` at the indices along a new axis of extent `dim`, `value_off` elsewhere."""
    at = normalize_axis(axis, input.type.rank, extra=1)
    shape = [1] * (input.type.rank + 1)
    shape[at] = dim
    take_room(make.budget, dim)
    every = make.iota(dim)
    # the gather checks the indices, and resolves negative ones
    indices = make("gather", every, make.cast(input, DType.INT64), axis=0)
    numbers = make.reshape(every, shape)
    hot = make("eq", unsqueeze(make, indices, (at,)), numbers)
    on, off = (operand(float(v)) for v in (value_on, value_off))
    return make("select", hot, on, off)
