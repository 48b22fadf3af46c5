"""Element-wise operations over channel-blocked tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Expression, Op, Step, TensorType, Value
from nnefc.ir.expression import expression_of
from nnefc.ir.layout import ITEM
from nnefc.kernels import scalar
from nnefc.lower.blocked import Tensor, layout_of, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.elementwise import Strided, launch_strided, literals
from nnefc.runtime.program import Ref


@blocked_lowering("fused", *scalar.operations())
def blocked_elementwise(lower: Lowering, op: Op) -> None:
    """Over [batch, blocks, *spatial, block]."""
    type_ = op.output.type
    layout, dims = layout_of(type_), type_.dims
    outputs = [_strided(write_blocked(lower, value)) for value in op.outputs]
    expression, kept = literals(lower, expression_of(op), op.inputs)
    inputs = [_operand(lower, v, type_) for v in kept]
    if fills_badly(expression, type_):
        expression = masked(expression)
        inputs.append(_per_channel(channel_mask(lower, type_), type_))
    shape = (dims[0], layout.blocks(dims), *dims[2:], layout.block)
    launch_strided(lower, expression, inputs, outputs, shape)


def _operand(lower: Lowering, value: Value, result: TensorType) -> Strided:
    if value.type.layout is not None:
        return _strided(read_blocked(lower, value))
    return _per_channel(channel_items(lower, value, layout_of(result).block), result)


def _per_channel(at: Ref, result: TensorType) -> Strided:
    strides = (0, layout_of(result).block, *[0] * (result.rank - 2), 1)
    return Strided(at, DType.FLOAT32, strides)


def channel_items(lower: Lowering, value: Value, block: int) -> Ref:
    """A known item per channel, in whole blocks, the rest filled up with zeros."""
    data = lower.data(value)
    assert data is not None
    return _in_blocks(lower, data.reshape(-1), block)


def channel_mask(lower: Lowering, type_: TensorType) -> Ref:
    """1 for every channel of a blocked tensor, 0 for those that fill up the last block."""
    return _in_blocks(lower, np.ones(type_.dims[1]), layout_of(type_).block)


def _in_blocks(lower: Lowering, channels: npt.NDArray[Any], block: int) -> Ref:
    padded = np.zeros(-(-channels.size // block) * block, np.float32)
    padded[: channels.size] = channels
    return lower.table(padded)


# -- filling channels


UNBOUNDED: Final = frozenset(
    {"div", "rcp", "rsqr", "rsqrt", "sqrt", "pow", "exp", "log", "log2"}
    | {"sinh", "cosh", "asin", "acos", "acosh", "atanh"}
)
"""Functions that may make infinities or NaN of small numbers."""


def fills_badly(expression: Expression, type_: TensorType) -> bool:
    """Whether a blocked result may get channels that are not finite where there are none."""
    whole = type_.dims[1] % layout_of(type_).block == 0
    return not whole and any(step.op in UNBOUNDED for step in expression.steps)


def masked(expression: Expression) -> Expression:
    """The expression with one more input, the last one: where that is 0 results are 0."""
    mask = len(expression.inputs)
    place = [*range(mask), *(mask + 1 + i for i in range(len(expression.steps)))]
    steps = [
        replace(step, operands=tuple(place[o] for o in step.operands)) for step in expression.steps
    ]
    zero = mask + 1 + len(steps)
    steps.append(Step("literal", (), DType.FLOAT32, 0.0))
    steps.append(Step("gt", (mask, zero), DType.BOOL))
    steps += [
        Step("select", (zero + 1, place[result], zero), DType.FLOAT32)
        for result in expression.results
    ]
    results = tuple(zero + 2 + i for i in range(len(expression.results)))
    return Expression((*expression.inputs, DType.FLOAT32), tuple(steps), results)


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
