"""Padding of the last channel block: zero wherever a sum over channels reads it.

A convolution reads several channels at a time (`Blocked.entry`) and multiplies padding channels by
zero weights, so an infinity in the padding would make NaN.  Padding becomes non-zero in the results
of convolutions that read an infinity, and of element-wise expressions that do not map zeros to
zeros.  All other operations on blocked tensors map zeros to zeros.  The padding of codes is
undefined.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType, Value
from nnefc.ir.convolution_algorithm import Depthwise, Direct, Grouped
from nnefc.ir.stages import BatchTensor, Stage
from nnefc.lower.blocked.tensors import layout_of
from nnefc.lower.context import Lowering
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.ops.tools.reference import evaluate_expression
from nnefc.program.program import Ref

NUMBER: Final = TensorType(DType.FLOAT32, ())
LARGEST: Final = float(np.finfo(np.float32).max)


def zero_padded_values(stages: Sequence[Stage]) -> set[Value]:
    """Blocked values whose padding channels must be zero.

    A sum over channels reads their padding, or padding computed from it, in any stage.  The graphs
    are walked backwards, so the users of a value are known before the value.
    """
    values: set[Value] = set()
    passed_on: set[BatchTensor] = set()
    for stage in reversed(stages):
        graph = stage.graph
        outputs = zip(graph.outputs, stage.outputs, strict=True)
        values.update(value for value, carried in outputs if carried in passed_on)
        _walk_backwards(graph, values)
        inputs = zip(graph.inputs, stage.inputs, strict=True)
        passed_on.update(carried for value, carried in inputs if value in values)
    return set(filter(_has_padding, values))


def _walk_backwards(graph: Graph, values: set[Value]) -> None:
    """Add the values of a graph, and of bodies in it, that are read with their padding."""
    for op in graph.reversed_ops:
        for body in op.bodies:  # whose inputs and outputs are row-major
            _walk_backwards(body, values)
        read = _operands_read_with_padding(op, values)
        values.update(v for v in read if v.type.layout is not None)


def _operands_read_with_padding(op: Op, values: Container[Value]) -> tuple[Value, ...]:
    """Operands whose padding a sum over channels reads, in this operation or via its results.

    `values`: those already known to be read with their padding.
    """
    if is_blocked_convolution(op) and not has_independent_lanes(op):
        # the padding of other operands only reaches the result, which gets zeros of its own
        return op.inputs[:1]
    if op.name == "layout" and op.output.type.layout is None:
        return ()
    summed = any(v.type.layout is None or v in values for v in op.outputs)
    return tuple(v for v in op.inputs if v.type.dtype.is_float) if summed else ()


def _has_padding(value: Value) -> bool:
    layout = layout_of(value.type)
    # matrix registers read whole blocks of bfloat16
    step = layout.block if value.type.dtype.is_half else layout.entry
    return value.type.dims[1] % step != 0


def has_independent_lanes(op: Op) -> bool:
    """Whether a fused convolution reads padding channels only to compute padding channels.

    Then the epilogue alone decides whether zero padding stays zero.
    """
    return isinstance(op.attributes["algorithm"], Depthwise | Grouped)


def writes_zero_padding(op: Op) -> bool:
    """Whether the tiles of a fused convolution write zeros to padding, after the epilogue."""
    return isinstance(op.attributes["algorithm"], Direct)


def maps_zeros_to_zeros(expression: Expression) -> bool:
    """Whether an expression maps zeros to zero, without infinite intermediate results.

    False for operands that are codes: their padding is not zero.
    """
    if not all(dtype.is_float for dtype in expression.inputs):
        return False
    first = len(expression.inputs)
    every = replace(expression, results=tuple(range(first + len(expression.steps))))
    zeros = [np.zeros(())] * first
    with np.errstate(all="ignore"):
        values = evaluate_expression(every, zeros, [NUMBER] * len(every.results))
    finite = all(np.abs(value.astype(np.float64)) <= LARGEST for value in values)
    return finite and all(values[result] == 0 for result in expression.results)


def channel_mask(lower: Lowering, type_: TensorType) -> Ref:
    """[padded channels], of the item type: 1 for channels of a blocked tensor, 0 for padding."""
    layout = layout_of(type_)
    mask = np.arange(layout.blocks(type_.dims) * layout.block) < type_.dims[1]
    return lower.table(mask.astype(type_.dtype.numpy))


def masked(expression: Expression) -> Expression:
    """The expression with a mask as additional last input; results are 0 where the mask is 0.

    The results are of one type, and so is the mask.
    """
    mask = len(expression.inputs)
    types = [*expression.inputs, *(step.dtype for step in expression.steps)]
    (dtype,) = {types[result] for result in expression.results}
    order = [*range(mask), *(mask + 1 + i for i in range(len(expression.steps)))]
    steps = [
        replace(step, operands=tuple(order[o] for o in step.operands)) for step in expression.steps
    ]
    zero = mask + 1 + len(steps)
    steps.append(Step("literal", (), dtype, 0.0))
    steps.append(Step("gt", (mask, zero), DType.BOOL))
    steps += [
        Step("select", (zero + 1, order[result], zero), dtype) for result in expression.results
    ]
    results = tuple(zero + 2 + i for i in range(len(expression.results)))
    return Expression((*expression.inputs, dtype), tuple(steps), results)
