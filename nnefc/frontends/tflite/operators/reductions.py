"""Reductions along axes, positions of extreme items, and sorted ones."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.sums import cumulative
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import as_type_of, axes_of
from nnefc.frontends.tflite.registry import (
    CODES,
    CODES_16,
    NUMBERS,
    REALS,
    Integers,
    Node,
    operator,
)

_REDUCTIONS: Final = {
    "SUM": ("sum_reduce", NUMBERS),
    "MEAN": ("mean_reduce", REALS),
    "REDUCE_MAX": ("max_reduce", NUMBERS),
    "REDUCE_MIN": ("min_reduce", NUMBERS),
    "REDUCE_PROD": ("product_reduce", NUMBERS),
    "REDUCE_ANY": ("any_reduce", ("BOOL",)),
    "REDUCE_ALL": ("all_reduce", ("BOOL",)),
}


def without_axes(make: OpBuilder, y: Operand, axes: tuple[int, ...]) -> Operand:
    """A tensor without dimensions whose extent is 1."""
    dims = tuple(n for i, n in enumerate(y.type.dims) if i not in axes)
    return make.reshape(y, dims)


def _reduction(name: str, operation: str, types: tuple[str, ...]) -> None:
    """Register a reduction."""

    def function(make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool) -> Any:
        axes = axes_of(operation, axis, input.type.rank)
        y = make(operation, input, axes=axes) if axes else input
        return y if keep_dims else without_axes(make, y, axes)

    operator(name, options="ReducerOptions", types=types)(function)


for _name, (_operation, _types) in _REDUCTIONS.items():
    _reduction(_name, _operation, _types)


@operator("ARG_MAX", types=(*REALS, "INT32", *CODES, *CODES_16))
def arg_max(make: OpBuilder, input: Operand, axis: Integers, node: Node) -> Any:
    return _position(make, "argmax_reduce", input, axis, node)


@operator("ARG_MIN", types=(*REALS, "INT32", *CODES, *CODES_16))
def arg_min(make: OpBuilder, input: Operand, axis: Integers, node: Node) -> Any:
    return _position(make, "argmin_reduce", input, axis, node)


def _position(make: OpBuilder, name: str, input: Operand, axis: Integers, node: Node) -> Any:
    """The first position of the extreme item along an axis."""
    if len(axis) != 1:
        raise OperatorError(f"argument/{name}", f"{len(axis)} axes, not one")
    axes = axes_of(name, axis, input.type.rank)
    y = make(name, input, axes=axes)
    return as_type_of(make, without_axes(make, y, axes), node.output)


@operator("MEAN", options="ReducerOptions", types=("INT32", "INT64"))
def mean(make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool) -> Any:
    """Sums divided by the number of items, without a fraction."""
    axes = axes_of("mean_reduce", axis, input.type.rank)
    count = math.prod(input.type.dims[i] for i in axes)
    if not count:
        raise OperatorError("tflite/shape", "a mean of no items")
    sums = make("sum_reduce", input, axes=axes) if axes else input
    y = make("div", sums, count)
    return y if keep_dims else without_axes(make, y, axes)


@operator("TOPK_V2", types=(*NUMBERS, *CODES))
def topk(make: OpBuilder, input: Operand, k: Integers, node: Node) -> Any:
    """The largest items of the last dimension, and their positions."""
    if len(k) != 1:
        raise OperatorError("argument/topk", f"{len(k)} numbers of items, not one")
    values, indices = make("topk", input, k=k[0], axis=input.type.rank - 1)
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        indices = as_type_of(make, indices, node.outputs[1])
    return values, indices


@operator("CUMSUM", options="CumsumOptions", types=NUMBERS)
def cumsum(
    make: OpBuilder, input: Operand, axis: Integers, *, exclusive: bool, reverse: bool
) -> Any:
    if len(axis) != 1:
        raise OperatorError("argument/cumsum", f"{len(axis)} axes, not one")
    at = normalize_axis(axis[0], input.type.rank)
    return cumulative(make, input, at, exclusive=exclusive, reverse=reverse)
