"""Slices with known bounds."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.registry import ANY, Integers, operator


@operator("SLICE", types=ANY)
def slice_(make: OpBuilder, input: Operand, begin: Integers, size: Integers) -> Any:
    """`size` items from `begin` in each dimension; -1 is all that follow."""
    dims = input.type.dims
    if not len(begin) == len(size) == len(dims):
        message = f"begin = {list(begin)}, size = {list(size)} for a tensor of rank {len(dims)}"
        raise OperatorError("argument/slice", message)
    y: Operand = input
    for axis, (first, count, extent) in enumerate(zip(begin, size, dims, strict=True)):
        end = extent if count == -1 else first + count
        if not 0 <= first <= end <= extent:
            message = f"items {first} to {end} of dimension {axis}, which has {extent}"
            raise OperatorError("argument/slice", message)
        y = slice_in_dim(make, y, axis, first, end)
    return y


@operator("STRIDED_SLICE", options="StridedSliceOptions", types=ANY)
def strided_slice(
    make: OpBuilder,
    input: Operand,
    begin: Integers,
    end: Integers,
    strides: Integers,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    offset: bool,
) -> Any:
    """As TensorFlow's: bit i of a mask concerns entry i of the bounds."""
    if not len(begin) == len(end) == len(strides):
        message = f"{len(begin)} begins, {len(end)} ends, {len(strides)} strides"
        raise OperatorError("argument/slice", message)
    rank, count = input.type.rank, len(begin)
    added = bin(new_axis_mask & ((1 << count) - 1) & ~ellipsis_mask).count("1")
    y: Operand = input
    axis, shape = 0, list[int]()
    for i in range(count):
        bit = 1 << i
        if ellipsis_mask & bit:
            whole = max(rank - (count - 1 - added), 0)
            shape += y.type.dims[axis : axis + whole]
            axis += whole
        elif new_axis_mask & bit:
            shape.append(1)
        elif axis >= rank:
            raise OperatorError("argument/slice", f"more bounds than {rank} dimensions")
        else:
            shrinks = bool(shrink_axis_mask & bit)
            last = end[i] + begin[i] if offset else end[i]
            bounds = (
                None if begin_mask & bit and not shrinks else begin[i],
                None if end_mask & bit or shrinks else last,
            )
            y = _sliced(make, y, axis, bounds, strides[i], shrinks=shrinks)
            shape += [] if shrinks else [y.type.dims[axis]]
            axis += 1
    shape += y.type.dims[axis:]
    return make.reshape(y, tuple(shape))


def _sliced(
    make: OpBuilder,
    x: Operand,
    axis: int,
    bounds: tuple[int | None, int | None],
    stride: int,
    *,
    shrinks: bool,
) -> Operand:
    """A slice along an axis with the bounds of Python; one item if it `shrinks`."""
    extent = x.type.dims[axis]
    begin, end = bounds
    if stride == 0:
        raise OperatorError("argument/slice", f"the stride of dimension {axis} is 0")
    if shrinks:
        first = (begin or 0) + (extent if (begin or 0) < 0 else 0)
        if not 0 <= first < extent:
            message = f"item {begin} of dimension {axis}, which has {extent}"
            raise OperatorError("argument/slice", message)
        return slice_in_dim(make, x, axis, first, first + 1)
    first, last, step = slice(begin, end, stride).indices(extent)
    if step > 0:
        return slice_in_dim(make, x, axis, first, max(first, last), step)
    return slice_in_dim(make, x, axis, first, min(first, last), step)
