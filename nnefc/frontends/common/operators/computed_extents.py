"""Extents that a run computes: room up to a bound, and their number as a count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.counted_numbers import has_counts, numbers_of
from nnefc.frontends.common.value_bounds import Bounds, bounds
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers, operand
from nnefc.ir import DType, Value
from nnefc.symbolic.counted_extent import CountedExtent

Number = int | Value
"""A number, or a tensor int64 [] that a run computes."""
_UNKNOWN: Final = 2.0**62
"""Larger bounds follow from item types alone."""
MAX_ROOM: Final = 1 << 24
"""The largest bound of an extent that a run computes."""


def numbers_of_list(make: OpBuilder, x: Any) -> Sequence[Number]:
    """The integers of a list; those that a run computes as tensors."""
    if isinstance(x, KnownTensor) and has_counts(x):
        numbers = numbers_of(make, x.array.reshape(-1).tolist())
        return [each for number in numbers for each in numbers_of_list(make, number)]
    if not isinstance(x, Value):
        return integers(x)
    if x.op is not None and x.op.name == "concat":
        return [number for each in x.op.inputs for number in numbers_of_list(make, each)]
    if x.op is not None and x.op.name == "constant":
        return integers(tuple(x.op.attributes["value"]))
    flat = make.reshape(x, (x.type.volume,))
    items = [slice_in_dim(make, flat, 0, i, i + 1) for i in range(x.type.volume)]
    return [make.value(make.cast(make.reshape(item, ()), DType.INT64)) for item in items]


def with_bounds(make: OpBuilder, shape: Operand) -> Operand:
    """A shape in which each extent that a run computes is a `CountedExtent`.

    Raises OperatorError for one without a bound.
    """
    if isinstance(shape, KnownTensor):
        return _with_counts(make, shape) if has_counts(shape) else shape
    extents = [
        _counted(make, each, shape) if isinstance(each, Value) else each
        for each in numbers_of_list(make, shape)
    ]
    return KnownTensor(np.array(extents, object), DType.INT64)


def _with_counts(make: OpBuilder, shape: KnownTensor) -> KnownTensor:
    """A known shape in which what is computed from counts has a bound and a count."""
    extents: list[Any] = shape.array.reshape(-1).tolist()
    for i, each in enumerate(extents):
        if isinstance(each, CountedExtent) and each.count is None:
            number = make.value(make.reshape(numbers_of(make, [each])[0], ()))
            extents[i] = _counted(make, number, number)
    return KnownTensor(np.array(extents, object), DType.INT64)


def _counted(make: OpBuilder, number: Value, shape: Value) -> int:
    """The room for an extent of a shape, with its number; 0 for one that cannot be positive."""
    room = _room(bounds(number, make.captured)[1], [shape])
    return CountedExtent(room, _clamped(make, number, room)) if room else 0


def _room(most: float, numbers: Sequence[Operand]) -> int:
    """An upper bound as an extent; raises OperatorError if it is too large."""
    if most > MAX_ROOM:
        names = [f"'{x.name}'" for x in numbers if isinstance(x, Value) and x.name]
        what = " and ".join(names) if names else "this tensor"
        bound = f"has the bound {most:,.0f}" if most < _UNKNOWN else "has no known bound"
        message = f"an extent is computed from {what} at run time, and {bound}"
        hint = f"a bound of at most {MAX_ROOM:,} is needed, as in Min(n, 100)"
        raise OperatorError("onnx/unsupported", message, hint, unknown=numbers)
    return max(math.floor(most), 0)


def _clamped(make: OpBuilder, number: Operand, room: int) -> Value:
    return make.value(make("min", make("max", number, 0), room))


# -- ranges


def computed_range(make: OpBuilder, start: Operand, end: Operand, step: Operand) -> Operand:
    """start, start + step, ... before `end`, all of one type and volume 1.

    A step of 0 gives no items.  Raises OperatorError for a number of items without a bound.
    """
    dtype = start.type.dtype
    first, last, stride = (make.cast(make.reshape(x, ()), dtype) for x in (start, end, step))
    low, high, size = (bounds(x, make.captured) for x in (first, last, stride))
    most = _most_items(low, high, size, is_float=dtype.is_float)
    computed = [x for x in (start, end, step) if isinstance(x, Value)]
    room = _room(most, computed)
    if not room:
        return KnownTensor(np.zeros(0, dtype.numpy), dtype)
    count = _clamped(make, _items(make, first, last, stride), room)
    numbers = make.cast(make.iota(room), dtype)
    y = make.value(make("add", make("mul", numbers, stride), first))
    make.counted[y] = 0, count
    return y


def _most_items(start: Bounds, end: Bounds, step: Bounds, *, is_float: bool) -> float:
    """An upper bound of the number of items, in either direction."""
    least = 0.0 if is_float else 1.0
    most = 0.0
    if step[1] > 0:
        most = max(most, _quotient(end[1] - start[0], max(step[0], least)))
    if step[0] < 0:
        most = max(most, _quotient(start[1] - end[0], max(-step[1], least)))
    # The difference of floats may be rounded up.
    return most + 1 if is_float and most else most


def _quotient(span: float, step: float) -> float:
    """The items of a span for a least size of the step."""
    if span <= 0:
        return 0.0
    if step <= 0 or math.isinf(span):
        return math.inf
    return math.ceil(span / step)


def _items(make: OpBuilder, start: Operand, end: Operand, step: Operand) -> Operand:
    """The number of items, which may be negative."""
    span = make("sub", end, start)
    if start.type.dtype.is_float:
        quotient = make("div", make.cast(span, DType.FLOAT64), make.cast(step, DType.FLOAT64))
        count = make.cast(make("ceil", quotient), DType.INT64)
    else:
        wide, stride = make.cast(span, DType.INT64), make.cast(step, DType.INT64)
        is_backwards = make("lt", stride, 0)
        wide = make("max", make("select", is_backwards, make("neg", wide), wide), 0)
        size = make("max", make("abs", stride), 1)
        count = make("div", make("add", wide, make("sub", size, 1)), size)
    zero = make.cast(operand(0), DType.INT64)
    return make("select", make("eq", step, make.cast(operand(0), step.type.dtype)), zero, count)
