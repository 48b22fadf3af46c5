"""Lowering of convolutions that round each product."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nnefc.ir import Op, Value
from nnefc.kernels.convolution.stepwise import PIXELS, STEPWISE, Rounding, block_outputs, sums
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.extended.quantized import code_limits
from nnefc.program.program import Ref

VECTOR_NS: Final = 2.0
"""Nanoseconds to multiply, round and add a vector of products, about."""


@lowering("stepwise_conv")
def stepwise_conv(lower: Lowering, op: Op) -> None:
    input_, filter_, bias = op.inputs
    maps, *kernel, outputs = filter_.type.dims
    batch, height, width, _ = op.output.type.dims
    dtype, attributes = input_.type.dtype, op.attributes
    blocks, pixels = ceil_div(outputs, block_outputs()), height * width
    together = min(pixels, PIXELS)
    units = batch * blocks * ceil_div(pixels, together)
    cost = VECTOR_NS * together * maps * math.prod(kernel)
    unit_block = units_per_tile(units, cost, lower.threads)
    row, column = input_.type.dims[3] * dtype.itemsize, dtype.itemsize
    stride, dilation = attributes["stride"], attributes["dilation"]
    weights, w_block, w_step = _weights(lower, filter_)
    words = STEPWISE.pack(
        x=lower.read(input_),
        w=weights,
        start=lower.read(bias),
        y=lower.write(op.output),
        maps=maps,
        taps=math.prod(kernel),
        outputs=outputs,
        blocks=blocks,
        width=width,
        pixels=pixels,
        x_batch=math.prod(input_.type.dims[1:]) * column,
        x_map=math.prod(input_.type.dims[2:]) * column,
        x_row=stride[0] * row,
        x_column=stride[1] * column,
        w_block=w_block,
        w_step=w_step,
        start_pixel=0 if bias.type.volume == outputs else outputs,
        units=units,
        unit_block=unit_block,
        offsets=[y * dilation[0] * row + x * dilation[1] * column for y, x in np.ndindex(*kernel)],
    )
    rounding = Rounding(
        str(dtype),
        attributes["position"],
        attributes["to_nearest"],
        attributes["wraps"],
        attributes["by_map"],
        _products_fit(lower, op),
    )
    kernel_ = sums(rounding, _type_of_sums(op), together)
    lower.launch(kernel_, words, ceil_div(units, unit_block))


def _weights(lower: Lowering, filter: Value) -> tuple[Ref, int, int]:
    """Weights; bytes between blocks of outputs, and between taps.

    Known ones are panels, which are read one line of the cache after the other.
    """
    *taps, outputs = filter.type.dims
    dtype, lanes = filter.type.dtype, block_outputs()
    data = lower.data(filter)
    if data is None:
        return lower.read(filter), lanes * dtype.itemsize, outputs * dtype.itemsize
    depth = math.prod(taps)
    matrix = np.broadcast_to(data, filter.type.dims).reshape(depth, outputs)
    at = lower.packed(matrix, "panels", (ceil_div(outputs, lanes), lanes), dtype)
    return at, depth * lanes * dtype.itemsize, lanes * dtype.itemsize


def _products_fit(lower: Lowering, op: Op) -> bool:
    """Whether products with known weights fit the type of the items after they are rounded."""
    data = lower.data(op.inputs[1])
    if data is None:
        return False
    low, high = code_limits(op.inputs[0].type.dtype)
    most = max(-low, high) * int(np.abs(data.astype(np.int64)).max(initial=0))
    half = 1 << op.attributes["position"] >> 1
    return (most + half) >> op.attributes["position"] <= high


def _type_of_sums(op: Op) -> str:
    """int32, or int64 where sums between two saturations may exceed that."""
    maps, *kernel, _ = op.inputs[1].type.dims
    products = math.prod(kernel) * (1 if op.attributes["by_map"] else maps)
    most = max(map(abs, code_limits(op.inputs[0].type.dtype)))
    # biases have the format of the items, as the sum of a map has
    is_narrow = op.attributes["wraps"] or (products + 1) * most <= np.iinfo(np.int32).max
    return "int32" if is_narrow else "int64"
