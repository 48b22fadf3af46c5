"""Lowering of element-wise operations on channel-blocked tensors."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.ir.expression import expression_of
from nnefc.kernels.vector.instructions import INSTRUCTIONS
from nnefc.lower.blocked.tensors import Tensor, layout_of, read_blocked, write_blocked
from nnefc.lower.channel_padding import channel_mask, maps_zeros_to_zeros, masked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.elementwise.expression import Strided, fold_literals, launch_strided
from nnefc.program.program import Ref


@blocked_lowering("fused", *INSTRUCTIONS)
def blocked_elementwise(lower: Lowering, op: Op) -> None:
    """One element-wise operation or expression, over [batch, blocks, *spatial, block]."""
    type_ = op.output.type
    layout, dims = layout_of(type_), type_.dims
    outputs = [strided(write_blocked(lower, value)) for value in op.outputs]
    expression, values = fold_literals(lower, expression_of(op), op.inputs)
    inputs = [blocked_operand(lower, v, type_) for v in values]
    if any(map(lower.needs_zero_padding, op.outputs)) and not maps_zeros_to_zeros(expression):
        expression = masked(expression)
        inputs.append(per_channel(channel_mask(lower, type_), type_.dtype, type_))
    shape = (dims[0], layout.blocks(dims), *dims[2:], layout.block)
    launch_strided(lower, expression, inputs, outputs, shape)


def blocked_operand(lower: Lowering, value: Value, result: TensorType) -> Strided:
    """An operand: a blocked tensor, or known items per channel."""
    if value.type.layout is not None:
        return strided(read_blocked(lower, value))
    at = channel_items(lower, value, layout_of(result).block)
    return per_channel(at, value.type.dtype, result)


def per_channel(at: Ref, dtype: DType, result: TensorType) -> Strided:
    """An item per channel in memory, in whole blocks, broadcast over batch and pixels."""
    strides = (0, layout_of(result).block, *[0] * (result.rank - 2), 1)
    return Strided(at, dtype, strides)


def channel_items(lower: Lowering, value: Value, block: int) -> Ref:
    """Memory with a known item per channel, zero-padded to whole blocks."""
    data = lower.data(value)
    assert data is not None
    padded = np.zeros(-(-data.size // block) * block, data.dtype)
    padded[: data.size] = data.reshape(-1)
    return lower.table(padded)


def strided(tensor: Tensor) -> Strided:
    """The pixels inside the halo; a single pixel is broadcast."""
    at = Ref(tensor.at.buffer, tensor.at.offset + tensor.origin, tensor.at.writes)
    whole = math.prod(tensor.spatial) == 1
    spatial = [0 if whole else pitch // tensor.itemsize for pitch in tensor.pitches]
    strides = (
        tensor.batch_bytes // tensor.itemsize,
        tensor.plane_bytes // tensor.itemsize,
        *spatial,
        1,
    )
    return Strided(at, tensor.dtype, strides)
