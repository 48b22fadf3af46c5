"""Strided views: transposes, splits and reshapes as offsets and strides into another tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnefc.ir import Op, Shape, Value
from nnefc.passes.base import RESHAPES


@dataclass(frozen=True)
class StridedView:
    """Items of `source` from item `offset` on, `strides` items apart along each dimension."""

    source: Value
    offset: int
    strides: tuple[int, ...]

    @staticmethod
    def dense(value: Value) -> StridedView:
        """All of a tensor in row-major order."""
        strides: list[int] = []
        step = 1
        for extent in reversed(value.type.dims):
            strides.append(step)
            step *= extent
        return StridedView(value, 0, tuple(reversed(strides)))

    def from_index(self, axis: int, index: int) -> StridedView:
        """The view that starts at `index` along an axis."""
        return StridedView(self.source, self.offset + index * self.strides[axis], self.strides)

    @property
    def attribute(self) -> tuple[int, ...]:
        """(offset, strides...) as an attribute of an operation."""
        return (self.offset, *self.strides)


def strided_source(value: Value) -> StridedView:
    """`value` as a view of the earliest tensor that has its items."""
    op = value.op
    if op is None or op.name not in _VIEWS:
        return StridedView.dense(value)
    view = _VIEWS[op.name](op, value, strided_source(op.inputs[0]))
    return StridedView.dense(value) if view is None else view


def strided_pieces(value: Value, axis: int) -> list[tuple[int, StridedView]]:
    """`value` as (extent, view) of pieces along an axis: the operands of a concatenation.

    Looks through transposes, reshapes and tiles between the concatenation and `value`.  Without a
    concatenation, `value` is the only piece.
    """
    whole = [(value.type.dims[axis], strided_source(value))]
    passed: list[tuple[Op, int]] = []
    while value.op is not None and value.op.name in _KEEP_AXES:
        before = _axis_before(value.op, axis)
        if before is None:
            return whole
        passed.append((value.op, axis))
        value, axis = value.op.inputs[0], before
    if value.op is None or value.op.name != "concat" or value.op.attributes["axis"] != axis:
        return whole
    pieces: list[tuple[int, StridedView]] = []
    for operand in value.op.inputs:
        view, dims = strided_source(operand), operand.type.dims
        extent = dims[axis]
        for op, at in reversed(passed):
            after = op.output.type.dims
            after = (*after[:at], extent, *after[at + 1 :])
            step = _apply(op, view, dims, after)
            if step is None:
                return whole
            view, dims = step, after
        pieces.append((extent, view))
    return pieces


def _apply(op: Op, x: StridedView, dims: Shape, after: Shape) -> StridedView | None:
    """The view that `op` makes of a piece of its operand, from shape `dims` to `after`."""
    if op.name == "transpose":
        return _transpose(op, op.output, x)
    if op.name == "tile":
        return _tile(op, op.output, x)
    strides = reshaped(dims, x.strides, after)
    return None if strides is None else StridedView(x.source, x.offset, strides)


def _axis_before(op: Op, axis: int) -> int | None:
    """The dimension of the operand that equals dimension `axis` of the result; None if none."""
    before, after = op.inputs[0].type.dims, op.output.type.dims
    if op.name == "transpose":
        axes: tuple[int, ...] = op.attributes["axes"]
        return axes[axis] if axis < len(axes) else axis
    if op.name == "tile":
        return axis if op.attributes["repeats"][axis] == 1 else None
    outer = math.prod(after[:axis])
    for i, extent in enumerate(before):
        if math.prod(before[:i]) == outer and extent == after[axis]:
            return i
    return None


_KEEP_AXES = (*RESHAPES, "transpose", "tile")
"""Operations through which a dimension can be followed."""


def _reshape(op: Op, value: Value, x: StridedView) -> StridedView | None:
    strides = reshaped(op.inputs[0].type.dims, x.strides, value.type.dims)
    return None if strides is None else StridedView(x.source, x.offset, strides)


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


def _transpose(op: Op, value: Value, x: StridedView) -> StridedView:
    axes: tuple[int, ...] = op.attributes["axes"]
    order = (*axes, *range(len(axes), value.type.rank))
    return StridedView(x.source, x.offset, tuple(x.strides[axis] for axis in order))


def _split(op: Op, value: Value, x: StridedView) -> StridedView:
    axis: int = op.attributes["axis"]
    before = sum(v.type.dims[axis] for v in op.outputs[: value.index])
    return StridedView(x.source, x.offset + before * x.strides[axis], x.strides)


def _slice(op: Op, value: Value, x: StridedView) -> StridedView | None:
    axes: tuple[int, ...] = op.attributes["axes"]
    begin: tuple[int, ...] = op.attributes["begin"]
    steps: tuple[int, ...] = op.attributes["stride"] or (1,) * len(axes)
    if any(step < 1 for step in steps):
        return None
    offset, strides = x.offset, list(x.strides)
    for axis, first, step in zip(axes, begin, steps, strict=True):
        extent = op.inputs[0].type.dims[axis]
        offset += min(first + extent if first < 0 else first, extent) * strides[axis]
        strides[axis] *= step
    return StridedView(x.source, offset, tuple(strides))


def _tile(op: Op, value: Value, x: StridedView) -> StridedView | None:
    """Repetition of singular dimensions, by stride 0; None if another dimension repeats."""
    extents, repeats = op.inputs[0].type.dims, op.attributes["repeats"]
    if any(extent > 1 and count > 1 for extent, count in zip(extents, repeats, strict=True)):
        return None
    strides = [0 if count > 1 else s for s, count in zip(x.strides, repeats, strict=True)]
    return StridedView(x.source, x.offset, tuple(strides))


_VIEWS = {
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "transpose": _transpose,
    "split": _split,
    "slice": _slice,
    "tile": _tile,
}
