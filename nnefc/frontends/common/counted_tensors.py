"""Tensors with fewer valid items along an axis than its extent (`OpBuilder.counted`).

Invalid items may be anything.  Operations that would compute with them get other items instead, or
are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from nnefc.frontends.common.counted_axes import (
    UNCOUNTED,
    is_contracted,
    is_selected,
    merged,
    result_axis,
)
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType, Op, Value
from nnefc.ops.tools.table import declared
from nnefc.symbolic.counted_extent import CountedExtent


class Builder(Protocol):
    """The methods of an `OpBuilder` that operations on counted tensors are built with."""

    counted: dict[Value, tuple[int, Value]]

    def __call__(self, name: str, /, *operands: Any, **attributes: Any) -> Any: ...

    def value(self, x: Operand) -> Value: ...

    def cast(self, x: Operand, dtype: DType) -> Operand: ...

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand: ...

    def iota(self, count: int, start: int = 0) -> Operand: ...


def _limit(dtype: DType, *, least: bool) -> Any:
    if dtype is DType.BOOL:
        return not least
    if dtype.is_float:
        return -math.inf if least else math.inf
    info = np.iinfo(dtype.numpy)
    return info.min if least else info.max


_IDENTITIES: Final[Mapping[str, Callable[[DType], Any]]] = {
    "sum_reduce": lambda dtype: 0,
    "product_reduce": lambda dtype: 1,
    "max_reduce": lambda dtype: _limit(dtype, least=True),
    "min_reduce": lambda dtype: _limit(dtype, least=False),
    "any_reduce": lambda dtype: False,
    "all_reduce": lambda dtype: True,
    "argmax_reduce": lambda dtype: _limit(dtype, least=True),
    "argmin_reduce": lambda dtype: _limit(dtype, least=False),
}
"""Items that do not change the result of a reduction, by item type."""
UNKNOWN: Final = "a number that is computed from a data-dependent extent cannot be used here"
_INDEXED: Final = ("gather", "gather_nd")


def without_invalid_items(
    make: Builder, name: str, values: list[Value], attributes: Mapping[str, Any]
) -> list[Value]:
    """Operands of an operation, in which invalid items do not matter where that is possible."""
    if not values:
        return values
    x, *others = values
    if name in _INDEXED:
        (indices,) = others
        if is_selected(name, attributes, x, indices, make.counted):
            indices = _from_the_end(make, name, attributes, x, indices)
        return [x, _replaced(make, indices, 0) if indices in make.counted else indices]
    if name in _IDENTITIES and _is_sum(attributes) and _is_reduced(make, x, attributes):
        return [_replaced(make, x, _IDENTITIES[name](x.type.dtype)), *others]
    if name == "softmax" and _is_reduced(make, x, attributes):
        return [_replaced(make, x, -math.inf)]
    if name == "matmul":
        return [
            _replaced(make, each, 0) if is_contracted(i, each, attributes, make.counted) else each
            for i, each in enumerate(values)
        ]
    if name == "integer_matmul":
        factors = [
            _replaced(make, each, zero)
            if is_contracted(i, each, attributes, make.counted)
            else each
            for i, (each, zero) in enumerate(zip(values[:2], values[2:]))
        ]
        return [*factors, *values[2:]]
    if name == "topk" and _is_ordered(make, x, attributes):
        return [_replaced(make, x, _limit(x.type.dtype, least=attributes["largest"]))]
    return values


def _from_the_end(
    make: Builder, name: str, attributes: Mapping[str, Any], table: Value, indices: Value
) -> Value:
    """Indices in which negative ones, which count from the end of the valid items, are positive."""
    axis, count = make.counted[table]
    number = make.cast(count, indices.type.dtype)
    is_from_end: Any = make("lt", indices, 0)
    if name == "gather_nd" and indices.type.dims[-1] > 1:
        column = np.arange(indices.type.dims[-1]) == axis - attributes.get("batch_dims", 0)
        shape = [1] * (indices.type.rank - 1) + [column.size]
        is_from_end = make("and", is_from_end, KnownTensor(column.reshape(shape), DType.BOOL))
    selected = make.value(make("select", is_from_end, make("add", indices, number), indices))
    if indices in make.counted:
        make.counted[selected] = make.counted[indices]
    return selected


def _is_ordered(make: Builder, x: Value, attributes: Mapping[str, Any]) -> bool:
    return x in make.counted and make.counted[x][0] == attributes["axis"]


def with_equal_rooms(
    make: Builder, name: str, tensors: Sequence[Operand], attributes: Mapping[str, Any]
) -> list[Operand]:
    """Operands whose numbers of valid items along an axis must be equal, with equal extents there.

    The extents are bounds, which differ where the numbers were found in different ways.  Raises
    OperatorError for a tensor without items of which a run tells an extent.
    """
    for x in tensors:
        if isinstance(x, Value) and x in make.counted and 0 in x.type.dims:
            message = f"{name} of a tensor without items, of which only a run tells an extent"
            raise OperatorError("operator/empty", message)
    if name == "concat":
        joined: int = attributes["axis"]
    elif declared()[name].elementwise:
        joined = -1
    else:
        return list(tensors)
    rooms: dict[int, int] = {}
    for x in tensors:
        if isinstance(x, Value) and x in make.counted:
            axis = make.counted[x][0]
            room = x.type.dims[axis]
            if room > 1:  # one item is broadcast
                rooms[axis] = min(rooms.get(axis, room), room)
    rooms.pop(joined, None)
    return [_with_room(make, x, rooms) for x in tensors]


def _with_room(make: Builder, x: Operand, rooms: Mapping[int, int]) -> Operand:
    """A tensor whose extent along the axis of its count is that of `rooms`."""
    if not isinstance(x, Value) or x not in make.counted:
        return x
    axis, count = make.counted[x]
    room = rooms.get(axis, 0)
    if not 0 < room < x.type.dims[axis]:
        return x
    make.counted, counted = {}, make.counted
    try:
        y = make.value(make("slice", x, axes=(axis,), begin=(0,), end=(room,), stride=(1,)))
    finally:
        make.counted = counted
    make.counted[y] = axis, count
    return y


def of_valid_items(
    make: Builder, name: str, tensors: Sequence[Operand], attributes: Mapping[str, Any]
) -> Operand | None:
    """The result of an operation that is composed of others for tensors with counts, else None."""
    if name == "concat":
        return _joined(make, tensors, attributes["axis"])
    return _mean(make, name, tensors, attributes)


def _joined(make: Builder, tensors: Sequence[Operand], axis: int) -> Operand | None:
    """The valid items of tensors, one after the other; None if none has a count along `axis`.

    Items are gathered from the tensors with all items.  Item i of the result is item i + d there,
    where d is the number of invalid items in the tensors before.
    """
    counts = [make.counted.get(x) if isinstance(x, Value) else None for x in tensors]
    if not any(count is not None and count[0] == axis for count in counts):
        return None
    if any(count is not None and count[0] != axis for count in counts):
        raise OperatorError("operator/unsupported", "concat of tensors with counts along two axes")
    make.counted, counted = {}, make.counted
    try:
        plain = make("concat", list(tensors), axis=axis)
    finally:
        make.counted = counted
    room = plain.type.dims[axis]
    numbers = make.iota(room)
    where, valid = numbers, KnownTensor(np.array(0), DType.INT64)
    for x, count in zip(tensors, counts, strict=True):
        extent = x.type.dims[axis]
        number = KnownTensor(np.array(extent), DType.INT64) if count is None else count[1]
        valid = make("add", valid, make.cast(number, DType.INT64))
        skipped = make("select", make("ge", numbers, valid), make("sub", extent, number), 0)
        where = make("add", where, skipped)
    result = make.value(make("gather", plain, make("min", where, room - 1), axis=axis))
    make.counted[result] = axis, make.value(valid)
    return result


def _mean(
    make: Builder, name: str, tensors: Sequence[Operand], attributes: Mapping[str, Any]
) -> Operand | None:
    """The mean along axes of which one has a count; None for other operations."""
    if name not in ("mean_reduce", "sum_reduce") or (name == "sum_reduce" and _is_sum(attributes)):
        return None
    axes: Sequence[int] = attributes["axes"]
    x = tensors[0]
    if not isinstance(x, Value) or not _is_reduced(make, x, attributes):
        return None
    axis, count = make.counted[x]
    others = math.prod(x.type.dims[i] for i in axes if i != axis)
    number = make("mul", make.reshape(count, ()), others)
    return make("div", make("sum_reduce", x, axes=axes), make.cast(number, x.type.dtype))


def _is_reduced(make: Builder, x: Value, attributes: Mapping[str, Any]) -> bool:
    return x in make.counted and make.counted[x][0] in attributes["axes"]


def _is_sum(attributes: Mapping[str, Any]) -> bool:
    """Whether a reduction does not divide by the number of items."""
    return not attributes.get("normalize", False)


def _replaced(make: Builder, x: Value, item: Any) -> Value:
    """A tensor with `item`, a number or a value, in place of the invalid items."""
    axis, count = make.counted[x]
    shape = [1] * x.type.rank
    shape[axis] = x.type.dims[axis]
    is_valid = make("lt", make.reshape(make.iota(shape[axis]), shape), count)
    other = item
    if not isinstance(item, Value):
        other = KnownTensor(np.array(item, x.type.dtype.numpy), x.type.dtype)
    valid = make.value(make("select", is_valid, x, other))
    make.counted[valid] = axis, count
    return valid


def counted_shape(make: Builder, x: Operand) -> list[int]:
    """The shape of a tensor, with a `CountedExtent` where it has a count."""
    dims = list(x.type.dims)
    if isinstance(x, Value) and x in make.counted:
        axis, count = make.counted[x]
        dims[axis] = CountedExtent(dims[axis], count)
    return dims


def counted_volume(make: Builder, x: Operand) -> int:
    """The number of items of a tensor, a `CountedExtent` if it has a count."""
    volume = math.prod(x.type.dims)
    if not isinstance(x, Value) or x not in make.counted:
        return volume
    axis, count = make.counted[x]
    others = math.prod(extent for i, extent in enumerate(x.type.dims) if i != axis)
    return CountedExtent(volume, make("mul", count, others))


def counts_of(shape: Operand) -> dict[int, Value]:
    """The counts of extents in a shape, by axis; raises OperatorError for unknown ones."""
    if not isinstance(shape, KnownTensor) or not shape.is_symbolic:
        return {}
    extents: list[Any] = shape.array.reshape(-1).tolist()
    counted = {i: each for i, each in enumerate(extents) if isinstance(each, CountedExtent)}
    if any(each.count is None for each in counted.values()):
        raise OperatorError("operator/unsupported", UNKNOWN)
    return {i: each.count for i, each in counted.items()}


def with_counts(make: Builder, x: Operand, shape: Operand) -> Operand:
    """A tensor whose last extents are those of a shape, and counted as they are."""
    first = x.type.rank - shape.type.volume
    counts = counts_of(shape)
    for axis, count in counts.items():
        x = make.value(x)
        if make.counted.setdefault(x, (first + axis, count))[0] != first + axis:
            message = "a tensor has several extents that are computed at run time"
            raise OperatorError("operator/unsupported", message, unknown=list(counts.values()))
    return x


def filled(make: Builder, x: Operand, item: Any) -> Operand:
    """A tensor without a count, with `item` in place of invalid items."""
    if not isinstance(x, Value) or x not in make.counted:
        return x
    valid = _replaced(make, x, item)
    del make.counted[valid]
    return valid


def count_results(make: Builder, op: Op) -> None:
    """Copy the number of valid items from the operands to the results of an operation.

    Raises OperatorError for an operation that would compute with the invalid items.
    """
    for x in op.inputs:
        if x not in make.counted:
            continue
        axis, count = make.counted[x]
        if op.name in _IDENTITIES and axis in op.attributes["axes"] and _is_sum(op.attributes):
            continue
        at = result_axis(op, x, make.counted)
        if op.name == "topk" and _is_ordered(make, x, op.attributes):
            at, count = axis, make.value(make("min", count, op.attributes["k"]))
        if op.name == "reshape" and (found := merged(op, axis)) is not None and found[1] != 1:
            count = make.value(make("mul", count, found[1]))
        if at == UNCOUNTED:
            continue
        if at is None:
            message = f"{op.name} cannot take a tensor with a data-dependent extent"
            raise OperatorError("operator/unsupported", message, unknown=[count])
        for y in op.outputs:
            make.counted[y] = at, count
