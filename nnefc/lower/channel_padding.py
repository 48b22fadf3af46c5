"""Channels that fill up the last block of a tensor: zero where sums over channels read them.

A convolution reads channels some at a time (`Blocked.entry`), those that fill up the last ones with
weights of zero: of an infinity there it would make a NaN.  Convolutions do so of an infinity in any
channel they read, and element-wise expressions may do so of zeros; what else writes blocked tensors
makes zeros of zeros.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Op, Step, TensorType, Value
from nnefc.ir.convolution_algorithm import Depthwise, Direct, Grouped
from nnefc.ir.stages import BatchTensor, Stage
from nnefc.lower.blocked.tensors import layout_of
from nnefc.lower.context import Lowering
from nnefc.ops.tools.reference import evaluate_expression
from nnefc.program.program import Ref

NUMBER: Final = TensorType(DType.FLOAT32, ())
LARGEST: Final = float(np.finfo(np.float32).max)


def zero_filled(stages: Sequence[Stage]) -> set[Value]:
    """Blocked values whose channels that fill up the last block have to be zero.

    That is where a sum over channels reads them, or what others make of them, in whichever stage:
    backwards, so that what becomes of a value is known before the value is met.
    """
    found: set[Value] = set()
    passed_on: set[BatchTensor] = set()
    for stage in reversed(stages):
        graph = stage.graph
        outputs = zip(graph.outputs, stage.outputs, strict=True)
        found.update(value for value, carried in outputs if carried in passed_on)
        for op in reversed(list(graph.ops)):
            found.update(v for v in _summed(op, found) if v.type.layout is not None)
        inputs = zip(graph.inputs, stage.inputs, strict=True)
        passed_on.update(carried for value, carried in inputs if value in found)
    return set(filter(_is_filled_up, found))


def _summed(op: Op, found: Container[Value]) -> tuple[Value, ...]:
    """Operands of which a sum over channels reads what fills them up, here or in the results."""
    if op.name in ("fused_conv", "fused_deconv") and not keeps_apart(op):
        # what is added to sums is in their result, which has zeros of its own
        return op.inputs[:1]
    if op.name == "layout" and op.output.type.layout is None:
        return ()
    summed = any(v.type.layout is None or v in found for v in op.outputs)
    return op.inputs if summed else ()


def _is_filled_up(value: Value) -> bool:
    return value.type.dims[1] % layout_of(value.type).entry != 0


def keeps_apart(op: Op) -> bool:
    """Whether lanes of a fused convolution meet nothing that fills a block up, unless they do so
    themselves: its epilogue decides what becomes of zeros.
    """
    return isinstance(op.attributes["algorithm"], Depthwise | Grouped)


def writes_zeros(op: Op) -> bool:
    """Whether the tiles of a fused convolution write zeros, after what they do in registers."""
    return isinstance(op.attributes["algorithm"], Direct)


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
