"""Sums and extremes of codes, and products of matrices of them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import (
    as_codes,
    centered,
    int32,
    require_same_scale,
    rescaled,
    rescaled_by_int16,
    rescaled_int16,
    scale_of,
    zero_of,
    zero_tensor,
)
from nnefc.frontends.tflite.operands import axes_of, known_array
from nnefc.frontends.tflite.operators.reductions import without_axes
from nnefc.frontends.tflite.registry import CODES, Integers, Node, operator
from nnefc.ir import DType

_MOST_FACTORS: Final = 256
"""The most codes of a product: each is an operation."""
_LARGEST_COUNT: Final = 1 << 23
"""The most codes whose sum is an int32."""


@operator("SUM", options="ReducerOptions", types=CODES)
def sum_(make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool, node: Node) -> Any:
    """Sums in int32, scaled to the result."""
    source, output = node.inputs[0], node.output
    assert source is not None
    axes = axes_of("sum_reduce", axis, input.type.rank)
    count = math.prod(input.type.dims[i] for i in axes)
    if not 0 < count <= _LARGEST_COUNT:
        raise OperatorError("tflite/unsupported", f"a sum of {count} items")
    wide = make.cast(input, DType.INT32)
    sums = make("sum_reduce", wide, axes=axes) if axes else wide
    sums = make("sub", sums, int32(count * zero_of(source)))
    y = as_codes(make, rescaled(make, sums, [scale_of(source) / scale_of(output)]), output)
    return y if keep_dims else without_axes(make, y, axes)


def _extreme(name: str, operation: str) -> None:
    """Register a reduction whose result is one of the codes."""

    def function(
        make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool, node: Node
    ) -> Any:
        source = node.inputs[0]
        assert source is not None
        require_same_scale(operation, source, node.output)
        axes = axes_of(operation, axis, input.type.rank)
        y = make(operation, input, axes=axes) if axes else input
        return y if keep_dims else without_axes(make, y, axes)

    operator(name, options="ReducerOptions", types=CODES)(function)


_extreme("REDUCE_MAX", "max_reduce")
_extreme("REDUCE_MIN", "min_reduce")


@operator("REDUCE_PROD", options="ReducerOptions", types=("INT8",))
def product(make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool, node: Node) -> Any:
    """Products item by item, each scaled by the same factor, a multiplier of 15 bits."""
    source, output = node.inputs[0], node.output
    assert source is not None
    rank = input.type.rank
    axes = axes_of("product_reduce", axis, rank)
    count = math.prod(input.type.dims[i] for i in axes)
    if not 0 < count <= _MOST_FACTORS:
        raise OperatorError("tflite/unsupported", f"a product of {count} codes")
    kept = [i for i in range(rank) if i not in axes]
    shape = tuple(input.type.dims[i] for i in kept)
    rows = make.reshape(make.transpose(input, [*axes, *kept]), (count, *shape))
    rows = make.cast(centered(make, rows, source), DType.INT64)
    factors = [scale_of(source) / scale_of(output) ** (1 / count)]
    items = [make.reshape(slice_in_dim(make, rows, 0, i, i + 1), shape) for i in range(count)]
    total = items[0]
    for each in items[1:]:
        total = rescaled_by_int16(make, make("mul", total, each), factors)
    scaled = rescaled_int16(make, total, factors)
    y = as_codes(make, scaled, output)
    return (
        make.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(input.type.dims)))
        if keep_dims
        else y
    )


@operator("BATCH_MATMUL", options="BatchMatMulOptions", types=("INT8",))
def batch_matmul(
    make: OpBuilder, x: Operand, y: Operand, *, adj_x: bool, adj_y: bool, node: Node
) -> Any:
    """int32 sums; results of int32 are sums of products of codes, whatever their zero points."""
    first, second = node.inputs[:2]
    assert first is not None
    assert second is not None
    if y.type.dtype is not DType.INT8:
        raise OperatorError("tflite/unsupported", f"{second} has items of {second.type}")
    rank = max(x.type.rank, y.type.rank)
    a, b = (make.aligned_right(each, rank) for each in (x, y))
    is_sum = node.output.type == "INT32"
    none = known_array(0, DType.INT8)
    zeros = (none, none) if is_sum else map(zero_tensor, (first, second))
    sums = make("integer_matmul", a, b, *zeros, transposeA=adj_x, transposeB=adj_y)
    if is_sum:
        return sums
    factor = float(np.float64(scale_of(first)) * scale_of(second) / scale_of(node.output))
    return as_codes(make, rescaled(make, sums, [factor]), node.output)
