"""What an operation costs: multiply-accumulates and memory."""

from __future__ import annotations

import math

from nnefc.ir import Graph, Op
from nnefc.ir.expression import FUSED
from nnefc.ops.reference import fused_operation


def macs(op: Op) -> int:
    """Multiply-accumulate operations of an op whose shapes are known; 0 if it does not multiply.

    Counts the dense arithmetic of convolutions and matrix products, border taps
    included, as is usual for networks; element-wise work is not counted.
    """
    if FUSED.get(op.name):
        return macs(fused_operation(op))
    if op.name in ("conv", "separable_conv"):
        *filters, _ = op.inputs[1:]
        return op.output.type.volume * sum(math.prod(f.type.dims[1:]) for f in filters)
    if op.name in ("deconv", "separable_deconv"):
        *filters, _ = op.inputs[1:]
        return op.inputs[0].type.volume * sum(math.prod(f.type.dims[1:]) for f in filters)
    if op.name in ("matmul", "linear"):
        transposed = bool(op.attributes.get("transposeA", False))
        inner = op.inputs[0].type.dims[-2 if transposed else -1]
        return op.output.type.volume * inner
    return 0


def parameters(graph: Graph) -> int:
    """Items of all variables; shared ones count once."""
    return sum(variable.type.volume for variable in graph.variables.values())


def parameter_bytes(graph: Graph) -> int:
    """Bytes of all variables."""
    return sum(variable.type.nbytes for variable in graph.variables.values())


def largest_live_bytes(graph: Graph) -> int:
    """Largest sum of the activations alive at one time, in the order of the document.

    A lower bound for the memory that any plan without fusion needs between operations.
    """
    last_use = {}
    for position, op in enumerate(graph.ops):
        for value in op.inputs:
            last_use[value] = position
    end = len(graph)
    for value in graph.outputs:
        last_use[value] = end
    live = largest = 0
    for position, op in enumerate(graph.ops):
        if op.name in ("constant", "variable"):
            continue
        live += sum(v.type.nbytes for v in op.outputs if v in last_use)
        largest = max(largest, live)
        for value in dict.fromkeys(op.inputs):
            producer = value.op
            stored = producer is None or producer.name in ("constant", "variable")
            if last_use[value] == position and not stored:
                live -= value.type.nbytes
    return largest
