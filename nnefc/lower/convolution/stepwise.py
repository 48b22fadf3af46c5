"""Lowering of convolutions that round each product."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nnefc.ir import Op
from nnefc.kernels.convolution import stepwise as kernels
from nnefc.kernels.convolution.stepwise import PIXELS, STEPWISE, block_outputs
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.extended.quantized import code_limits

VECTOR_NS: Final = 2.0
"""Nanoseconds to multiply, round and add a vector of products, about."""


@lowering("stepwise_conv")
def stepwise_conv(lower: Lowering, op: Op) -> None:
    input_, filter_, bias = op.inputs
    maps, *kernel, outputs = filter_.type.dims
    batch, height, width, _ = op.output.type.dims
    dtype, attributes = input_.type.dtype, op.attributes
    blocks, pixels = ceil_div(outputs, block_outputs()), height * width
    units = batch * blocks * ceil_div(pixels, PIXELS)
    cost = VECTOR_NS * PIXELS * maps * math.prod(kernel)
    unit_block = units_per_tile(units, cost, lower.threads)
    row, column = input_.type.dims[3] * dtype.itemsize, dtype.itemsize
    stride, dilation = attributes["stride"], attributes["dilation"]
    words = STEPWISE.pack(
        x=lower.read(input_),
        w=lower.read(filter_),
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
        start_pixel=0 if bias.type.volume == outputs else outputs,
        units=units,
        unit_block=unit_block,
        offsets=[y * dilation[0] * row + x * dilation[1] * column for y, x in np.ndindex(*kernel)],
    )
    sums = kernels.sums(
        str(dtype),
        attributes["position"],
        attributes["to_nearest"],
        attributes["wraps"],
        attributes["by_map"],
        _type_of_sums(op),
    )
    lower.launch(sums, words, ceil_div(units, unit_block))


def _type_of_sums(op: Op) -> str:
    """int32, or int64 where sums between two saturations may exceed that."""
    maps, *kernel, _ = op.inputs[1].type.dims
    products = math.prod(kernel) * (1 if op.attributes["by_map"] else maps)
    most = max(map(abs, code_limits(op.inputs[0].type.dtype)))
    # biases have the format of the items, as the sum of a map has
    is_narrow = op.attributes["wraps"] or (products + 1) * most <= np.iinfo(np.int32).max
    return "int32" if is_narrow else "int64"
