"""Tensors with fewer valid items along an axis than its extent (`OpBuilder.counted`).

Invalid items may be anything.  Operations that would compute with them get other items instead, or
are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from nnefc.frontends.common.counted_axes import result_axis
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType, Op, Value


class Builder(Protocol):
    """The methods of an `OpBuilder` that operations on counted tensors are built with."""

    counted: dict[Value, tuple[int, Value]]

    def __call__(self, name: str, /, *operands: Any, **attributes: Any) -> Any: ...

    def value(self, x: Operand) -> Value: ...

    def cast(self, x: Operand, dtype: DType) -> Operand: ...

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand: ...

    def iota(self, count: int) -> Operand: ...


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
}
"""Items that do not change the result of a reduction, by item type."""
_INDEXED: Final = ("gather", "gather_nd")


def without_invalid_items(
    make: Builder, name: str, values: list[Value], attributes: Mapping[str, Any]
) -> list[Value]:
    """Operands of an operation, in which invalid items do not matter where that is possible."""
    if name in _INDEXED and values[1] in make.counted:
        return [values[0], _replaced(make, values[1], 0), *values[2:]]
    if name in _IDENTITIES and _is_sum(attributes) and _is_reduced(make, values[0], attributes):
        x = values[0]
        return [_replaced(make, x, _IDENTITIES[name](x.type.dtype)), *values[1:]]
    return values


def mean_of_valid_items(
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
    """A tensor with `item` in place of the invalid items."""
    axis, count = make.counted[x]
    shape = [1] * x.type.rank
    shape[axis] = x.type.dims[axis]
    is_valid = make("lt", make.reshape(make.iota(shape[axis]), shape), count)
    other = KnownTensor(np.array(item, x.type.dtype.numpy), x.type.dtype)
    valid = make.value(make("select", is_valid, x, other))
    make.counted[valid] = axis, count
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
        if at is None:
            message = f"{op.name} cannot take a tensor with a data-dependent extent"
            raise OperatorError("operator/unsupported", message)
        for y in op.outputs:
            make.counted[y] = at, count
