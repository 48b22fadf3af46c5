"""Softmax and its relatives, and normalization by a norm.

Before version 13 they treat the input as a matrix: the dimensions from `axis` on are one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import Operand, OperatorError, has_no_items
from nnefc.frontends.onnx.broadcasting import constant, widened
from nnefc.frontends.onnx.operators.elementwise.activations import in_wide_type
from nnefc.frontends.onnx.registry import operator

Axes = tuple[int, ...]


def softmax_along(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    """exp(x) over its sum along some axes."""
    return make("softmax", x, axes=axes)


def _log_softmax(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    """x - log sum exp(x), with the maximum taken out."""

    def compute(wide: Operand) -> Operand:
        shifted = make("sub", wide, make("max_reduce", wide, axes=axes))
        sums = make("sum_reduce", make("exp", shifted), axes=axes)
        return make("sub", shifted, make("log", sums))

    return in_wide_type(make, x, compute)


def _hardmax(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    """1 for the first maximum, 0 elsewhere."""
    index = make("argmax_reduce", x, axes=axes)
    dims = tuple(n if i in axes else 1 for i, n in enumerate(x.type.dims))
    numbers = make.reshape(make.iota(math.prod(dims)), dims)
    return make.cast(make("eq", make.cast(index, numbers.type.dtype), numbers), x.type.dtype)


def _register(name: str, compute: Callable[[OpBuilder, Operand, Axes], Operand]) -> None:
    def of_items(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
        return x if has_no_items(x) else compute(make, x, axes)

    def of_matrix(make: OpBuilder, input: Operand, *, axis: int = 1) -> Any:
        rank = input.type.rank
        at = axis if axis == rank else normalize_axis(axis, rank)
        return of_items(make, input, tuple(range(at, rank)))

    def along_axis(make: OpBuilder, input: Operand, *, axis: int = -1) -> Any:
        return of_items(make, input, (normalize_axis(axis, input.type.rank),))

    operator(name, until=12)(of_matrix)
    operator(name, since=13)(along_axis)


_register("Softmax", softmax_along)
_register("LogSoftmax", _log_softmax)
_register("Hardmax", _hardmax)


@operator("LpNormalization")
def lp_normalization(make: OpBuilder, input: Operand, *, axis: int = -1, p: int = 2) -> Any:
    """The input divided by its norm along an axis; 0 where that is 0."""
    if p not in (1, 2):
        raise OperatorError("onnx/arguments", f"p is 1 or 2, not {p}")
    at = normalize_axis(axis, input.type.rank)
    x = widened(make, input)
    sizes = make("abs", x) if p == 1 else make("sqr", x)
    norm = make("sum_reduce", sizes, axes=(at,))
    if p == 2:
        norm = make("sqrt", norm)
    is_zero = make("eq", norm, constant(norm, 0))
    divisor = make("select", is_zero, constant(norm, 1), norm)
    return make.cast(make("div", x, divisor), input.type.dtype)
