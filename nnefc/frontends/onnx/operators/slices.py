"""Concatenate, split, slice and pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import distinct_axes, normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.computed_extents import numbers_of_list
from nnefc.frontends.common.operators.computed_slices import Slice, computed_slice
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    integers,
    operand,
)
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import at_least, at_most


@operator("Concat", until=3)
def concat_1(make: OpBuilder, *inputs: Operand, axis: int = 1) -> Any:
    return concat(make, *inputs, axis=axis)


@operator("Concat", since=4)
def concat(make: OpBuilder, *inputs: Operand, axis: int) -> Any:
    if not inputs:
        raise OperatorError("argument/concat", "at least one input is needed")
    at = normalize_axis(axis, inputs[0].type.rank)
    return inputs[0] if len(inputs) == 1 else make("concat", list(inputs), axis=at)


# -- split


@operator("Split", until=1)
def split_1(
    make: OpBuilder,
    input: Operand,
    *splits: Operand,
    split: Integers | None = None,
    axis: int = 0,
    node: Node,
) -> Any:
    """The extents are an attribute or a second input."""
    if splits:
        return split_13(make, input, integers(splits[0]), axis=axis, node=node)
    return split_13(make, input, split, axis=axis, node=node)


@operator("Split", since=2, until=12)
def split_2(
    make: OpBuilder, input: Operand, *, split: Integers | None = None, axis: int = 0, node: Node
) -> Any:
    return split_13(make, input, split, axis=axis, node=node)


@operator("Split", since=13, until=17)
def split_13(
    make: OpBuilder, input: Operand, split: Integers | None = None, *, axis: int = 0, node: Node
) -> Any:
    """By default in chunks of equal extent."""
    at = normalize_axis(axis, input.type.rank)
    extent, count = input.type.dims[at], len(node.outputs)
    if split is None:
        if extent % count:
            message = f"extent {extent} cannot be split in {count} equal chunks"
            raise OperatorError("argument/split", message)
        split = (extent // count,) * count
    return _chunks(make, input, at, split)


@operator("Split", since=18)
def split(
    make: OpBuilder,
    input: Operand,
    split: Integers | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    node: Node,
) -> Any:
    """By default in chunks of equal extent, but for the last ones."""
    at = normalize_axis(axis, input.type.rank)
    if split is None:
        extent, count = input.type.dims[at], len(node.outputs)
        if num_outputs not in (None, count):
            message = f"num_outputs = {num_outputs}, but the node has {count} outputs"
            raise OperatorError("argument/split", message)
        chunk = -(-extent // count)
        bounds = [min(i * chunk, extent) for i in range(count + 1)]
        split = tuple(end - begin for begin, end in pairwise(bounds))
    return _chunks(make, input, at, split)


def _chunks(make: OpBuilder, x: Operand, axis: int, extents: Sequence[int]) -> tuple[Operand, ...]:
    """Consecutive slices of some extents along an axis; raises OperatorError."""
    extent = x.type.dims[axis]
    if any(each < 0 for each in extents) or sum(extents) != extent:
        message = f"extent {extent} cannot be split in {list(extents)}"
        raise OperatorError("argument/split", message, "the sum of both is the same")
    chunks: list[Operand] = []
    begin = 0
    for each in extents:
        chunks.append(slice_in_dim(make, x, axis, begin, begin + each))
        begin += each
    return tuple(chunks)


# -- slice


_LARGEST_STEP: Final = (1 << 31) - 1
"""The largest step of the operation, which leaves no axis a second item."""


@operator("Slice", until=9)
def slice_1(
    make: OpBuilder,
    data: Operand,
    *,
    starts: Integers,
    ends: Integers,
    axes: Integers | None = None,
) -> Any:
    return slice_(make, data, starts, ends, axes)


@operator("Slice", since=10)
def slice_(
    make: OpBuilder,
    data: Operand,
    starts: Any,
    ends: Any,
    axes: Integers | None = None,
    steps: Any = None,
) -> Any:
    """Bounds are clamped to the dimension; negative ones count from its end.

    Bounds and steps that are computed at run time give a tensor with a data-dependent extent.
    """
    begins, stops = numbers_of_list(make, starts), numbers_of_list(make, ends)
    listed = tuple(range(len(begins))) if axes is None else axes
    strides = (1,) * len(begins) if steps is None else numbers_of_list(make, steps)
    lengths = {len(begins), len(stops), len(listed), len(strides)}
    if len(lengths) > 1:
        message = (
            f"{len(begins)} starts, {len(stops)} ends, {len(listed)} axes, {len(strides)} steps"
        )
        raise OperatorError("argument/slice", message, "their numbers are the same")
    where = distinct_axes("slice", listed, data.type.rank)
    for axis, start, end, step in zip(where, begins, stops, strides, strict=True):
        if isinstance(step, int) and step == 0:
            raise OperatorError("argument/slice", f"steps = {list(strides)}; 0 is no step")
        part = Slice(start, end, step)
        counted = isinstance(data, Value) and axis == make.counted.get(data, (None,))[0]
        if counted or part.computed:
            data = computed_slice(make, data, axis, part)
            continue
        assert not isinstance(start, Value)
        assert not isinstance(end, Value)
        assert not isinstance(step, Value)
        step = max(min(step, _LARGEST_STEP), -_LARGEST_STEP)
        extent = data.type.dims[axis]
        first, last = (bound + extent if bound < 0 else bound for bound in (start, end))
        low, high = (0, extent) if step > 0 else (-1, extent - 1)
        begin, stop = at_least(first, 0), at_most(at_least(last, low), high)
        # a slice that begins behind the end is empty, whether or not its begin is limited
        begin = min(begin, high) if step > 0 else at_most(begin, high)
        stop = max(begin, stop) if step > 0 else min(begin, stop)
        data = slice_in_dim(make, data, axis, begin, stop, step)
    return data


# -- pad


_BORDERS: Final = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": ""}
"""ONNX's modes of padding, and the borders of the operation; it has none that wraps."""


@operator("Pad", until=1)
def pad_1(
    make: OpBuilder, data: Operand, *, paddings: Integers, mode: str = "constant", value: float = 0
) -> Any:
    return pad_2(make, data, pads=paddings, mode=mode, value=value)


@operator("Pad", since=2, until=10)
def pad_2(
    make: OpBuilder, data: Operand, *, pads: Integers, mode: str = "constant", value: float = 0
) -> Any:
    return _padded(make, data, pads, make.cast(operand(float(value)), data.type.dtype), None, mode)


@operator("Pad", since=11, until=17)
@operator("Pad", domain=MICROSOFT)
def pad_11(
    make: OpBuilder,
    data: Operand,
    pads: Integers,
    constant_value: Operand | None = None,
    *,
    mode: str = "constant",
) -> Any:
    return _padded(make, data, pads, constant_value, None, mode)


@operator("Pad", since=18)
def pad(
    make: OpBuilder,
    data: Operand,
    pads: Integers,
    constant_value: Operand | None = None,
    axes: Integers | None = None,
    *,
    mode: str = "constant",
) -> Any:
    return _padded(make, data, pads, constant_value, axes, mode)


@operator("CenterCropPad", since=18)
def center_crop_pad(
    make: OpBuilder, input_data: Operand, shape: Integers, *, axes: Integers | None = None
) -> Any:
    """Cropped or padded with zeros to a shape, on both sides alike."""
    rank = input_data.type.rank
    listed = tuple(range(rank)) if axes is None else axes
    where = distinct_axes("center_crop_pad", listed, rank)
    if len(where) != len(shape) or any(extent < 0 for extent in shape):
        message = f"shape = {list(shape)} for axes {list(listed)}"
        raise OperatorError("argument/center_crop_pad", message)
    before: list[int] = []
    after: list[int] = []
    for axis, extent in zip(where, shape, strict=True):
        missing = extent - input_data.type.dims[axis]
        half = missing // 2 if missing >= 0 else -(-missing // 2)
        before.append(half)
        after.append(missing - half)
    return _padded(make, input_data, (*before, *after), None, where, "constant")


def _padded(
    make: OpBuilder,
    x: Operand,
    pads: Integers,
    value: Operand | None,
    axes: Integers | None,
    mode: str,
) -> Operand:
    """A tensor within a border; raises OperatorError.

    Negative pads crop the tensor before the border is made of the remaining items.
    """
    rank = x.type.rank
    where = tuple(range(rank)) if axes is None else distinct_axes("pad", axes, rank)
    if len(pads) != 2 * len(where) or mode not in _BORDERS:
        message = f"pads = {list(pads)}, mode = '{mode}' for {len(where)} axes"
        hint = f"two pads per axis are needed, and a mode of {', '.join(_BORDERS)}"
        raise OperatorError("argument/pad", message, hint)
    padding = [(0, 0)] * rank
    for i, axis in enumerate(where):
        before, after = pads[i], pads[len(where) + i]
        extent = x.type.dims[axis]
        begin, end = max(-before, 0), extent - max(-after, 0)
        if begin > extent or end < 0 or end < begin:
            message = f"pads = {list(pads)} remove more than axis {axis} of extent {extent} has"
            raise OperatorError("argument/pad", message)
        x = slice_in_dim(make, x, axis, begin, end)
        padding[axis] = max(before, 0), max(after, 0)
    if mode == "constant":
        return _within_constant(make, x, padding, value)
    for axis, sides in enumerate(padding):
        if x.type.dims[axis] == 0 and any(sides):
            message = f"axis {axis} of extent 0 has no items for a border of mode '{mode}'"
            raise OperatorError("argument/pad", message)
    if mode == "wrap":
        return _wrapped(make, x, padding)
    if all(sides == (0, 0) for sides in padding):
        return x
    if x.type.dtype is DType.BOOL:
        bordered = _bordered(make, make.cast(x, DType.UINT8), padding, _BORDERS[mode])
        return make.cast(bordered, DType.BOOL)
    return _bordered(make, x, padding, _BORDERS[mode])


def _bordered(
    make: OpBuilder, x: Operand, padding: Sequence[tuple[int, int]], border: str
) -> Operand:
    return make("pad", x, padding=tuple(padding), border=border)


def _within_constant(
    make: OpBuilder, x: Operand, padding: Sequence[tuple[int, int]], value: Operand | None
) -> Operand:
    """A tensor within a border of one number, by default 0."""
    if value is not None and value.type.volume != 1:
        message = f"constant_value has shape {list(value.type.dims)}; one item is expected"
        raise OperatorError("argument/pad", message)
    number = make.cast(operand(0) if value is None else make.reshape(value, ()), x.type.dtype)
    if isinstance(number, KnownTensor) and x.type.dtype.is_float:
        if all(sides == (0, 0) for sides in padding):
            return x
        constant = float(number.array.reshape(()))
        if math.isfinite(constant):
            return make("pad", x, padding=tuple(padding), border="constant", value=constant)
    for axis, sides in enumerate(padding):
        borders: list[Operand] = []
        for count in sides:
            dims = list(x.type.dims)
            dims[axis] = count
            borders.append(make.repeated(make.reshape(number, (1,) * len(dims)), dims))
        filled = [each for each in (borders[0], x, borders[1]) if each.type.dims[axis] != 0]
        if len(filled) > 1:
            x = make("concat", filled, axis=axis)
        elif filled:
            x = filled[0]
    return x


def _wrapped(make: OpBuilder, x: Operand, padding: Sequence[tuple[int, int]]) -> Operand:
    """A tensor repeated periodically."""
    for axis, (before, after) in enumerate(padding):
        if (before, after) == (0, 0):
            continue
        extent = x.type.dims[axis]
        # starts at a multiple of the extent before the first item, so that indices are positive
        first = -(-before // extent) * extent - before
        numbers = make.iota(before + extent + after, first)
        x = make("gather", x, make("remainder", numbers, extent), axis=axis)
    return x
