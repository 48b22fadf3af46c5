"""Reductions along axes, indices of extremes, and cumulative sums.

16-bit floats are summed in float32.  Roots and logarithms of integers are truncated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import distinct_axes, normalize_axis
from nnefc.frontends.common.operators.sums import cumulative
from nnefc.frontends.common.values import KnownTensor, Operand, has_no_items
from nnefc.frontends.onnx.broadcasting import constant, widened
from nnefc.frontends.onnx.registry import Integers, operator
from nnefc.ir import DType

Axes = tuple[int, ...]
Reduction = Callable[[OpBuilder, Operand, Axes], Operand]


def _sum(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return make("sum_reduce", x, axes=axes)


def _mean(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return make("sum_reduce", x, axes=axes, normalize=True)


def _product(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return make("product_reduce", x, axes=axes)


def _l1(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return _sum(make, make("abs", x) if x.type.dtype.is_signed else x, axes)


def _sum_square(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return _sum(make, make("sqr", x), axes)


def _l2(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return make("sqrt", _sum_square(make, x, axes))


def _log_sum(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return make("log", _sum(make, x, axes))


def _log_sum_exp(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    """log sum exp(x), with the finite maximum taken out so that exp does not overflow."""
    most = extreme(make, "max_reduce", x, axes)
    shift = make("select", make("is_inf", most), constant(most, 0), most)
    sums = _sum(make, make("exp", make("sub", x, shift)), axes)
    return make("add", make("log", sums), shift)


def extreme(make: OpBuilder, name: str, x: Operand, axes: Axes) -> Operand:
    """The maximum or minimum; of no items it is the smallest or the largest number."""
    dtype = x.type.dtype
    dims = tuple(1 if i in axes else n for i, n in enumerate(x.type.dims))
    is_max = name == "max_reduce"
    if dtype is DType.BOOL:
        return make("any_reduce" if is_max else "all_reduce", x, axes=axes)
    if not has_no_items(x) or 0 in dims:
        return make(name, x, axes=axes)
    if dtype.is_float:
        start = -math.inf if is_max else math.inf
    else:
        limits = np.iinfo(dtype.numpy)
        start = limits.min if is_max else limits.max
    one = KnownTensor(np.full((1,) * len(dims), start, dtype.numpy), dtype)
    return make.repeated(one, dims)


def _max(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return extreme(make, "max_reduce", x, axes)


def _min(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    return extreme(make, "min_reduce", x, axes)


_EXACT: Final[dict[str, Reduction]] = {
    "ReduceSum": _sum, "ReduceProd": _product, "ReduceMax": _max, "ReduceMin": _min,
    "ReduceMean": _mean, "ReduceL1": _l1, "ReduceSumSquare": _sum_square,
}  # fmt: skip
"""Reductions that are computed in the item type of integers."""
_REAL: Final[dict[str, Reduction]] = {
    "ReduceL2": _l2, "ReduceLogSum": _log_sum, "ReduceLogSumExp": _log_sum_exp,
}  # fmt: skip
"""Reductions of real numbers."""
_EXTREMES: Final = ("ReduceMax", "ReduceMin")


def _reduced(
    make: OpBuilder,
    name: str,
    x: Operand,
    axes: Integers | None,
    keepdims: bool,
    noop_with_empty_axes: bool = False,
) -> Operand:
    """A reduction; without axes it is along all of them, or none if `noop_with_empty_axes`."""
    rank, dtype = x.type.rank, x.type.dtype
    where = distinct_axes("reduce", axes or (), rank)
    if not axes and not noop_with_empty_axes:
        where = tuple(range(rank))
    if name in _REAL or (dtype.is_half and name not in _EXTREMES):
        wide = widened(make, x)
    elif name == "ReduceMean" and dtype.is_integer:
        wide = make.cast(x, DType.INT64)  # the sum of narrow integers would overflow
    else:
        wide = x
    compute = _EXACT.get(name) or _REAL[name]
    result = make.cast(compute(make, wide, where), dtype)
    return result if keepdims else without_axes(make, result, where)


def without_axes(make: OpBuilder, x: Operand, axes: Axes) -> Operand:
    """A tensor without some of its dimensions, whose extents are 1."""
    return make.reshape(x, tuple(n for i, n in enumerate(x.type.dims) if i not in axes))


def _register(name: str, *, since: int) -> None:
    """Register a reduction; `since`: the version from which on `axes` is an input."""

    def with_attribute(
        make: OpBuilder, data: Operand, *, axes: Integers | None = None, keepdims: bool = True
    ) -> Any:
        return _reduced(make, name, data, axes, keepdims)

    def with_input(
        make: OpBuilder,
        data: Operand,
        axes: Integers | None = None,
        *,
        keepdims: bool = True,
        noop_with_empty_axes: bool = False,
    ) -> Any:
        return _reduced(make, name, data, axes, keepdims, noop_with_empty_axes)

    operator(name, until=since - 1)(with_attribute)
    operator(name, since=since)(with_input)


for _name in (*_EXACT, *_REAL):
    _register(_name, since=13 if _name == "ReduceSum" else 18)


# -- indices of extremes


def _register_index(name: str, operation: str) -> None:
    def first(make: OpBuilder, data: Operand, *, axis: int = 0, keepdims: bool = True) -> Any:
        return index_of_extreme(make, operation, data, axis, keepdims)

    def either(
        make: OpBuilder,
        data: Operand,
        *,
        axis: int = 0,
        keepdims: bool = True,
        select_last_index: bool = False,
    ) -> Any:
        which = f"{operation}_last" if select_last_index else operation
        return index_of_extreme(make, which, data, axis, keepdims)

    operator(name, until=11)(first)
    operator(name, since=12)(either)


def index_of_extreme(
    make: OpBuilder, operation: str, x: Operand, axis: int, keepdims: bool
) -> Operand:
    """The index of a maximum or minimum along an axis, as int64."""
    at = normalize_axis(axis, x.type.rank)
    result = make.cast(make(operation, x, axes=(at,)), DType.INT64)
    return result if keepdims else without_axes(make, result, (at,))


_register_index("ArgMax", "argmax_reduce")
_register_index("ArgMin", "argmin_reduce")


# -- cumulative sums and products


def _register_cumulative(name: str, operation: str, since: int) -> None:
    def function(
        make: OpBuilder,
        x: Operand,
        axis: int,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Any:
        at = normalize_axis(axis, x.type.rank)
        wide = widened(make, x) if x.type.dtype.is_half else x
        sums = cumulative(make, wide, at, exclusive=exclusive, reverse=reverse, operation=operation)
        return make.cast(sums, x.type.dtype)

    operator(name, since=since)(function)


_register_cumulative("CumSum", "add", 11)
_register_cumulative("CumProd", "mul", 26)
