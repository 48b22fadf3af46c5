"""Slices along an axis whose bounds or steps only a run knows."""

from __future__ import annotations

from typing import NamedTuple

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.computed_extents import Number
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import largest, smallest


class Slice(NamedTuple):
    """Items start, start + step, ... before `end`; the bounds are those of ONNX and NumPy.

    They are clamped to the extent; negative ones count from its end.
    """

    start: Number
    end: Number
    step: Number

    @property
    def computed(self) -> list[Value]:
        """The numbers that only a run knows."""
        return [each for each in self if isinstance(each, Value)]


def computed_slice(make: OpBuilder, x: Operand, axis: int, part: Slice) -> Operand:
    """A slice with room for all items that it may have, and their number as its count.

    `x` may have a count along `axis`.  A step of 0 makes an index out of range.  Raises
    OperatorError for a tensor with a count along another axis.
    """
    extent = x.type.dims[axis]
    if extent == 0:
        return x
    counted = make.counted.get(x) if isinstance(x, Value) else None
    valid = _int64(make, extent if counted is None else counted[1])
    step = make("max", make("min", _int64(make, part.step), extent), -extent)
    first, count = _first_and_count(make, part, step, valid)
    where = make("add", make("mul", make.iota(_room(part, extent)), step), first)
    where = make("max", make("min", where, extent - 1), 0)
    if isinstance(part.step, Value):
        where = make("select", make("eq", step, 0), _int64(make, extent), where)
    y = make.value(make("gather", x, where, axis=axis))
    if y in make.counted:
        message = "a tensor has several extents that are computed at run time"
        raise OperatorError("onnx/unsupported", message, unknown=part.computed)
    make.counted[y] = axis, make.value(count)
    return y


def _first_and_count(
    make: OpBuilder, part: Slice, step: Operand, extent: Operand
) -> tuple[Operand, Operand]:
    """The first index, and the number of items; `step`: that of the slice, within its extent."""
    zero, before_end = _int64(make, 0), make("sub", extent, 1)
    start, end = (_from_front(make, bound, extent) for bound in (part.start, part.end))
    low = _by_direction(make, part.step, zero, _int64(make, -1))
    high = _by_direction(make, part.step, extent, before_end)
    first = make("min", make("max", start, 0), high)
    last = make("min", make("max", end, low), high)
    forwards, backwards = make("sub", last, first), make("sub", first, last)
    span = make("max", _by_direction(make, part.step, forwards, backwards), 0)
    if part.step in (1, -1):
        return first, span
    size = make("max", make("abs", step), 1)
    return first, make("div", make("add", span, make("sub", size, 1)), size)


def _by_direction(make: OpBuilder, step: Number, forwards: Operand, backwards: Operand) -> Operand:
    """What belongs to a positive, or to a negative step."""
    if isinstance(step, Value):
        return make("select", make("lt", step, 0), backwards, forwards)
    return forwards if step > 0 else backwards


def _from_front(make: OpBuilder, bound: Number, extent: Operand) -> Operand:
    """A bound that does not count from the end."""
    number = _int64(make, bound)
    if isinstance(number, KnownTensor) and not number.is_symbolic:
        return number if number.array >= 0 else make("add", number, extent)
    return make("select", make("lt", number, 0), make("add", number, extent), number)


def _room(part: Slice, extent: int) -> int:
    """An upper bound of the number of items."""
    start, end, step = part
    if isinstance(step, Value):
        return extent
    if isinstance(start, int) and isinstance(end, int) and (start >= 0) == (end >= 0):
        extent = smallest([extent, abs(end - start)])
    return largest([-(-extent // abs(step)), 1])


def _int64(make: OpBuilder, number: int | Operand) -> Operand:
    return make.cast(operand(number), DType.INT64)
