"""Tensors as other tensors walked with strides: what transposes, splits and reshapes amount to."""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir import Op, Shape, Value


@dataclass(frozen=True)
class StridedView:
    """Items of `source`: number `offset` first, then `strides` items apart along each dimension."""

    source: Value
    offset: int
    strides: tuple[int, ...]

    @staticmethod
    def dense(value: Value) -> StridedView:
        """A tensor as it is."""
        strides: list[int] = []
        step = 1
        for extent in reversed(value.type.dims):
            strides.append(step)
            step *= extent
        return StridedView(value, 0, tuple(reversed(strides)))

    @property
    def attribute(self) -> tuple[int, ...]:
        """Offset and strides, as an attribute of an operation."""
        return (self.offset, *self.strides)


def strided_source(value: Value) -> StridedView:
    """`value` as the items of the earliest tensor that it is a view of."""
    op = value.op
    if op is None or op.name not in _VIEWS:
        return StridedView.dense(value)
    found = _VIEWS[op.name](op, value, strided_source(op.inputs[0]))
    return StridedView.dense(value) if found is None else found


def _reshape(op: Op, value: Value, x: StridedView) -> StridedView | None:
    strides = reshaped(op.inputs[0].type.dims, x.strides, value.type.dims)
    return None if strides is None else StridedView(x.source, x.offset, strides)


def reshaped(before: Shape, strides: tuple[int, ...], after: Shape) -> tuple[int, ...] | None:
    """Strides of the same items, in the same order, in another shape; None if there are none."""
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
    found: list[int] = []
    for extent in reversed(after):
        if extent > 1 and left == 1:
            left, pitch = runs.pop()
        if left % extent:
            return None
        found.append(pitch if extent > 1 else 0)
        left, pitch = left // extent, pitch * extent
    return tuple(reversed(found))


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


_VIEWS = {
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "transpose": _transpose,
    "split": _split,
    "slice": _slice,
}
