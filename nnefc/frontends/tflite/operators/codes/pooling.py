"""Pooling and means of codes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import (
    as_codes,
    int32,
    limited,
    multiplied_by,
    quantize_multiplier,
    scale_of,
    zero_of,
)
from nnefc.frontends.tflite.operands import axes_of, channels_first, channels_last
from nnefc.frontends.tflite.operators.pooling import pooling_of
from nnefc.frontends.tflite.operators.reductions import without_axes
from nnefc.frontends.tflite.registry import CODES, CODES_16, Integers, Node, operator
from nnefc.ir import DType
from nnefc.symbolic.integers import smallest


@operator("MAX_POOL_2D", types=(*CODES, *CODES_16))
def max_pool_2d(make: OpBuilder, input: Operand, node: Node) -> Any:
    x = channels_first(make, input)
    y = make("max_pool", x, border="ignore", **pooling_of(node, x).attributes())
    activation = node.operator.options["fused_activation_function"]
    if activation:
        y = limited(make, make.cast(y, DType.INT32), node.output, activation)
    return channels_last(make, y)


@operator("AVERAGE_POOL_2D", types=(*CODES, *CODES_16))
def average_pool_2d(make: OpBuilder, input: Operand, node: Node) -> Any:
    """Means of the codes in a window, without its border; halves are rounded away from zero."""
    x = channels_first(make, input)
    pooling = pooling_of(node, x)
    area = int(np.prod(pooling.size))
    if area > 1 << 15:
        raise OperatorError("tflite/unsupported", f"a window of {area} items")
    is_exact = area << 8 * x.type.dtype.itemsize <= 1 << 24
    real = DType.FLOAT32 if is_exact else DType.FLOAT64
    reals = make.cast(x, real)
    attributes = pooling.attributes()
    sums = make("box", reals, border="constant", **attributes)
    ones = KnownTensor(np.ones((1, 1, *x.type.dims[2:]), real.numpy), real)
    counts = make("box", ones, border="constant", **attributes)
    total, count = (make.cast(each, DType.INT32) for each in (sums, counts))
    half = make("shift_right", count, int32(1))
    size = make("div", make("add", make("abs", total), half), count)
    means = make("select", make("lt", total, int32(0)), make("neg", size), size)
    activation = node.operator.options["fused_activation_function"]
    return channels_last(make, limited(make, means, node.output, activation))


@operator("MEAN", options="ReducerOptions", types=(*CODES, *CODES_16))
def mean(make: OpBuilder, input: Operand, axis: Integers, *, keep_dims: bool, node: Node) -> Any:
    """Sums in int32, times a multiplier that contains the division by the number of items."""
    source, output = node.inputs[0], node.output
    assert source is not None
    axes = axes_of("mean_reduce", axis, input.type.rank)
    count = math.prod(input.type.dims[i] for i in axes)
    if not count or count > 1 << 31 - 8 * input.type.dtype.itemsize:
        raise OperatorError("tflite/unsupported", f"a mean of {count} items")
    sums = make("sum_reduce", make.cast(input, DType.INT32), axes=axes)
    sums = make("sub", sums, int32(count * zero_of(source)))
    multiplier, shift = quantize_multiplier(scale_of(source) / scale_of(output))
    more = smallest((count.bit_length() - 1, 32, 31 + shift))
    pair = ((multiplier << more) // count, shift - more)
    y = as_codes(make, multiplied_by(make, sums, *pair), output)
    return y if keep_dims else without_axes(make, y, axes)
