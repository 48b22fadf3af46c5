"""Element-wise operations over channel-blocked tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnefc.ir import DType, Expression, Op, Step, Value
from nnefc.ir.layout import ITEM
from nnefc.kernels import scalar
from nnefc.lower.blocked import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.elementwise import Strided, launch_strided, literals
from nnefc.runtime.program import Ref


@blocked_lowering("fused")
def fused(lower: Lowering, op: Op) -> None:
    _launch(lower, op, op.attributes["expression"])


@blocked_lowering(*scalar.operations())
def single(lower: Lowering, op: Op) -> None:
    types = tuple(v.type.dtype for v in op.inputs)
    step = Step(op.name, tuple(range(len(types))), op.output.type.dtype)
    _launch(lower, op, Expression(types, (step,), (len(types),)))


def _launch(lower: Lowering, op: Op, expression: Expression) -> None:
    outputs = [_strided(write_blocked(lower, value)) for value in op.outputs]
    expression, kept = literals(lower, expression, op.inputs)
    inputs = [_operand(lower, v, op.outputs[0]) for v in kept]
    _compute(lower, expression, inputs, outputs, op.outputs[0])


def apply(lower: Lowering, expression: Expression, value: Value, others: Sequence[Value]) -> None:
    """Replace a blocked value, in place, by an expression over it, the first input, and others."""
    expression, kept = literals(lower, expression, (value, *others))
    inputs = [_operand(lower, v, value) for v in kept]
    output = _strided(read_blocked(lower, value))
    target = replace(output, ref=replace(output.ref, writes=True))
    _compute(lower, expression, inputs, [target], value)


def _compute(
    lower: Lowering,
    expression: Expression,
    inputs: Sequence[Strided],
    outputs: Sequence[Strided],
    value: Value,
) -> None:
    """Over [batch, blocks, *spatial, block]."""
    layout, dims = value.type.layout, value.type.dims
    assert layout is not None
    shape = (dims[0], layout.blocks(dims), *dims[2:], layout.block)
    launch_strided(lower, expression, inputs, outputs, shape)


def _operand(lower: Lowering, value: Value, result: Value) -> Strided:
    layout = result.type.layout
    assert layout is not None
    if value.type.layout is not None:
        return _strided(read_blocked(lower, value))
    strides = (0, layout.block, *[0] * (result.type.rank - 2), 1)
    return Strided(channel_items(lower, value, layout.block), DType.FLOAT32, strides)


def channel_items(lower: Lowering, value: Value, block: int) -> Ref:
    """A known item per channel, in whole blocks, the rest filled up with zeros."""
    data = lower.data(value)
    assert data is not None
    channels = data.reshape(-1)
    padded = np.zeros(-(-channels.size // block) * block, np.float32)
    padded[: channels.size] = channels
    return lower.table(padded)


def _strided(tensor: Tensor) -> Strided:
    """The pixels inside the halo; a spatial extent of 1 repeats."""
    at = Ref(tensor.at.buffer, tensor.at.offset + tensor.origin, tensor.at.writes)
    whole = math.prod(tensor.spatial) == 1
    spatial = [0 if whole else pitch // ITEM for pitch in tensor.pitches]
    strides = (
        tensor.batch_bytes // ITEM,
        tensor.plane_bytes // ITEM,
        *spatial,
        1,
    )
    return Strided(at, DType.FLOAT32, strides)
