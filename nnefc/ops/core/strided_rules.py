"""Strided rules: operations whose results are strided views of their first operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from nnefc.ir import Op, Shape
from nnefc.ops.core.views import TensorView, View

ViewRule = Callable[[Op, TensorView, Shape, int], View | None]
"""`rule(op, operand, shape, index)` returns result `index` of `op` as a view with shape `shape`.

It is a view of the tensor that `operand` views; None if strides cannot describe it.
"""

AxisRule = Callable[[Op, int], int | None]
"""`rule(op, axis)` returns the dimension of the operand that equals dimension `axis` of the result.

None if no dimension does.
"""


class StridedRule(NamedTuple):
    """How the results of an operation are views of its first operand.

    `axis`: None if the operation may cut dimensions.
    """

    view: ViewRule
    axis: AxisRule | None = None


# -- reshapes


def reshaped(before: Shape, strides: tuple[int, ...], after: Shape) -> tuple[int, ...] | None:
    """Strides of the items of a view after a reshape; None if no strides describe them."""
    runs = [(1, 0)]
    for extent, stride in zip(before, strides, strict=True):
        above, pitch = runs[-1]
        if extent == 1:
            continue
        if above > 1 and pitch == stride * extent:
            runs[-1] = (above * extent, stride)
        else:
            runs.append((extent, stride))
    left, pitch = runs.pop()
    result: list[int] = []
    for extent in reversed(after):
        if extent > 1 and left == 1:
            left, pitch = runs.pop()
        if left % extent:
            return None
        result.append(pitch if extent > 1 else 0)
        left, pitch = left // extent, pitch * extent
    return tuple(reversed(result))


def _reshape(op: Op, operand: TensorView, shape: Shape, index: int) -> View | None:
    del op, index
    offset, *strides = operand.view
    new = reshaped(operand.shape, tuple(strides), shape)
    return None if new is None else (offset, *new)


def _axis_before_reshape(op: Op, axis: int) -> int | None:
    before, after = op.inputs[0].type.dims, op.output.type.dims
    outer = math.prod(after[:axis])
    for i, extent in enumerate(before):
        if math.prod(before[:i]) == outer and extent == after[axis]:
            return i
    return None


# -- transposes


def _transpose(op: Op, operand: TensorView, shape: Shape, index: int) -> View:
    del index
    offset, *strides = operand.view
    axes: tuple[int, ...] = op.attributes["axes"]
    order = (*axes, *range(len(axes), len(shape)))
    return (offset, *(strides[axis] for axis in order))


def _axis_before_transpose(op: Op, axis: int) -> int:
    axes: tuple[int, ...] = op.attributes["axes"]
    return axes[axis] if axis < len(axes) else axis


# -- tiles


def _tile(op: Op, operand: TensorView, shape: Shape, index: int) -> View | None:
    """Repetition of singular dimensions, by stride 0; None if another dimension repeats."""
    del shape, index
    repeats: tuple[int, ...] = op.attributes["repeats"]
    if any(e > 1 and count > 1 for e, count in zip(operand.shape, repeats, strict=True)):
        return None
    offset, *strides = operand.view
    return (offset, *(0 if n > 1 else s for s, n in zip(strides, repeats, strict=True)))


def _axis_before_tile(op: Op, axis: int) -> int | None:
    return axis if op.attributes["repeats"][axis] == 1 else None


# -- splits and slices


def _split(op: Op, operand: TensorView, shape: Shape, index: int) -> View:
    del shape
    offset, *strides = operand.view
    axis: int = op.attributes["axis"]
    before = sum(v.type.dims[axis] for v in op.outputs[:index])
    return (offset + before * strides[axis], *strides)


def _slice(op: Op, operand: TensorView, shape: Shape, index: int) -> View | None:
    del shape, index
    axes: tuple[int, ...] = op.attributes["axes"]
    begin: tuple[int, ...] = op.attributes["begin"]
    steps: tuple[int, ...] = op.attributes["stride"] or (1,) * len(axes)
    if any(step < 1 for step in steps):
        return None
    offset, *strides = operand.view
    for axis, first, step in zip(axes, begin, steps, strict=True):
        extent = operand.shape[axis]
        offset += min(first + extent if first < 0 else first, extent) * strides[axis]
        strides[axis] *= step
    return (offset, *strides)


RESHAPE: Final = StridedRule(_reshape, _axis_before_reshape)
TRANSPOSE: Final = StridedRule(_transpose, _axis_before_transpose)
TILE: Final = StridedRule(_tile, _axis_before_tile)
SPLIT: Final = StridedRule(_split)
SLICE: Final = StridedRule(_slice)
