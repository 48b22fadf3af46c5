"""Strided views: transposes, splits and reshapes as offsets and strides into another tensor."""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir import Op, Shape, Value
from nnefc.ops.core.strided_rules import AxisRule
from nnefc.ops.core.views import TensorView
from nnefc.ops.tools.table import traits_of
from nnefc.passes.op_queries import producer


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
    if op is None or traits_of(op).strided is None:
        return StridedView.dense(value)
    operand = op.inputs[0]
    view = _apply(op, strided_source(operand), operand.type.dims, value.type.dims, value.index)
    return StridedView.dense(value) if view is None else view


def strided_pieces(value: Value, axis: int) -> list[tuple[int, StridedView]]:
    """`value` as (extent, view) of pieces along an axis: the operands of a concatenation.

    Looks through transposes, reshapes and tiles between the concatenation and `value`.  Without a
    concatenation, `value` is the only piece.
    """
    whole = [(value.type.dims[axis], strided_source(value))]
    passed: list[tuple[Op, int]] = []
    while value.op is not None and (axis_before := _axis_rule(value.op)) is not None:
        before = axis_before(value.op, axis)
        if before is None:
            return whole
        passed.append((value.op, axis))
        value, axis = value.op.inputs[0], before
    concat = producer(value, "concat")
    if concat is None or concat.attributes["axis"] != axis:
        return whole
    pieces: list[tuple[int, StridedView]] = []
    for operand in concat.inputs:
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


def _apply(op: Op, x: StridedView, dims: Shape, after: Shape, index: int = 0) -> StridedView | None:
    """Result `index` of `op`, of shape `after`, for the operand `x` of shape `dims`."""
    rule = traits_of(op).strided
    assert rule is not None
    view = rule.view(op, TensorView(x.source, dims, x.attribute), after, index)
    return None if view is None else StridedView(x.source, view[0], view[1:])


def _axis_rule(op: Op) -> AxisRule | None:
    rule = traits_of(op).strided
    return None if rule is None else rule.axis
