"""Channels that fill up the last block of a tensor: zero where sums over channels read them.

A convolution reads channels some at a time (`Blocked.entry`), those that fill up the last ones with
weights of zero: of an infinity there it would make a NaN.  Convolutions do so of an infinity in any
channel they read, and element-wise expressions may do so of zeros; what else writes blocked tensors
makes zeros of zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Op, Step, TensorType, Value
from nnefc.lower.blocked import layout_of
from nnefc.lower.context import Lowering
from nnefc.ops.reference import evaluate_expression
from nnefc.runtime.program import Ref

NUMBER: Final = TensorType(DType.FLOAT32, ())
LARGEST: Final = float(np.finfo(np.float32).max)


def must_be_zero(value: Value) -> bool:
    """Whether what fills up the last block of a blocked value has to be zero."""
    return value.type.dims[1] % layout_of(value.type).entry != 0 and _is_summed(value)


def _is_summed(value: Value) -> bool:
    """Whether a sum over channels reads what fills up `value`, or what others make of that."""
    waiting, seen = [value], {value}
    while waiting:
        read = waiting.pop()
        for user in read.users:
            if user.name in ("fused_conv", "fused_deconv") and not is_depthwise(user):
                if read is user.inputs[0]:
                    return True
                # what is added to sums is in their result, which has zeros of its own
                continue
            if user.name == "layout" and user.output.type.layout is None:
                continue
            if any(v.type.layout is None for v in user.outputs):
                return True
            waiting += [v for v in user.outputs if v not in seen]
            seen.update(user.outputs)
    return False


def is_depthwise(op: Op) -> bool:
    """Whether a fused convolution keeps channels apart: what it makes of zeros is its ending's."""
    return op.attributes["method"] == "depthwise"


def keeps_zeros(expression: Expression) -> bool:
    """Whether an expression over float32 makes a zero of zeros, with no infinity on the way."""
    first = len(expression.inputs)
    every = replace(expression, results=tuple(range(first + len(expression.steps))))
    zeros = [np.zeros(())] * first
    with np.errstate(all="ignore"):
        values = evaluate_expression(every, zeros, [NUMBER] * len(every.results))
    finite = all(np.abs(value.astype(np.float64)) <= LARGEST for value in values)
    return finite and all(values[result] == 0 for result in expression.results)


def channel_mask(lower: Lowering, type_: TensorType) -> Ref:
    """1 for every channel of a blocked tensor, 0 for those that fill up the last block."""
    layout = layout_of(type_)
    mask = np.arange(layout.blocks(type_.dims) * layout.block) < type_.dims[1]
    return lower.table(mask.astype(np.float32))


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
