"""Results of operations on tensors without items.

A result without items is an `EmptyTensor`, whatever the operation is.  This module gives the other
results, such as a sum of no items, which is 0.  Operations of a graph therefore never take tensors
without items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, has_no_items
from nnefc.ir import TensorType


class Builder(Protocol):
    """The methods of an `OpBuilder` that results are built with."""

    def __call__(self, name: str, /, *operands: Any, **attributes: Any) -> Any: ...

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand: ...

    def repeated(self, x: Operand, shape: Sequence[int]) -> Operand: ...


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of which an operand, but not the result of type `type_`, has no items."""

    make: Builder
    tensors: Sequence[Operand]
    attributes: Mapping[str, Any]
    type_: TensorType

    def filled(self, number: float) -> Operand:
        """A result whose items all are `number`.

        NaN is 0 in integer types, as the quotient of 0 by 0.
        """
        dtype = self.type_.dtype
        if math.isnan(number) and not dtype.is_float:
            number = 0
        one = KnownTensor(np.full((1,) * self.type_.rank, number, dtype.numpy), dtype)
        return self.make.repeated(one, self.type_.dims)


def result_of_empty(
    make: Builder,
    name: str,
    tensors: Sequence[Operand],
    attributes: Mapping[str, Any],
    types: Sequence[TensorType],
) -> Any:
    """The result of an operation, or a tuple of them; some of the operands `tensors` have no items.

    `attributes`: all of them.  `types`: of the results, which have items.  Raises OperatorError
    `operator/empty` if the operation is undefined for these operands.
    """
    operations = [_Operation(make, tensors, attributes, type_) for type_ in types]
    if name in _CONSTANT:
        filled = tuple(each.filled(_CONSTANT[name]) for each in operations)
        return filled[0] if len(filled) == 1 else filled
    rule = _RULES.get(name)
    result = None if rule is None else rule(operations[0])
    if result is None:
        raise OperatorError("operator/empty", f"there is no {name} of a tensor without items")
    return result


def _sum(op: _Operation) -> Operand:
    """0, or a mean of no items, which is NaN."""
    return op.filled(math.nan if op.attributes["normalize"] else 0)


def _padding(op: _Operation) -> Operand | None:
    """Padding alone; None for borders that repeat items."""
    return op.filled(op.attributes["value"]) if op.attributes["border"] == "constant" else None


def _bias(op: _Operation) -> Operand:
    """The bias alone, [1, channels] or a scalar: a sum of no products is 0."""
    if len(op.tensors) < 3:
        return op.filled(0)
    dims = op.tensors[2].type.dims
    bias = op.make.reshape(op.tensors[2], dims + (1,) * (op.type_.rank - len(dims)))
    return op.make.repeated(bias, op.type_.dims)


def _joined(op: _Operation) -> Any:
    """The concatenation of the tensors that have items."""
    filled = [x for x in op.tensors if not has_no_items(x)]
    return filled[0] if len(filled) == 1 else op.make("concat", filled, **op.attributes)


def _unchanged(op: _Operation) -> Operand:
    """The first operand, which no item updates."""
    return op.tensors[0]


_CONSTANT: Final[Mapping[str, float]] = {
    "all_reduce": True,
    "any_reduce": False,
    **dict.fromkeys(("integer_conv", "integer_deconv", "integer_matmul"), 0),
    "matmul": 0,
    "mean_reduce": math.nan,
    "moments": math.nan,
    "product_reduce": 1,
}
"""The number that all items of the results are, by operation."""
_RULES: Final[Mapping[str, Callable[[_Operation], Operand | None]]] = {
    "concat": _joined,
    "conv": _bias,
    "deconv": _bias,
    "linear": _bias,
    "pad": _padding,
    "scatter_elements": _unchanged,
    "scatter_nd": _unchanged,
    "sum_reduce": _sum,
}
"""The result by operation; None if it is undefined."""
