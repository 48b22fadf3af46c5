"""What an operation costs: multiply-accumulates and memory."""

from __future__ import annotations

import math

from nnefc.ir import Graph, Op, Value
from nnefc.ir.expression import FUSED
from nnefc.ops.internal import attention, fused_views, mean_variance, scan
from nnefc.ops.tools.reference import fused_operation
from nnefc.ops.tools.table import operations
from nnefc.symbolic.integers import hint


def macs(op: Op) -> int:
    """Multiply-accumulate operations of an op whose shapes are known; 0 if it does not multiply.

    Counts the dense arithmetic of convolutions and matrix products, border taps
    included, as is usual for networks; element-wise work is not counted.
    """
    if op.name == "attention":
        return attention.macs(op)
    if op.name == scan.NAME:
        parts = scan.Parts(op)
        return parts.turns * sum(map(macs, parts.body.ops))
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


def flops(op: Op) -> int:
    """Floating-point operations of an op whose shapes are known.

    A multiply-add is two, a step of an element-wise expression is one for every item (`exp`, too),
    and so is every item that a window or a reduction looks at; moving items is none.
    """
    if op.name == scan.NAME:
        parts = scan.Parts(op)
        return parts.turns * sum(map(flops, parts.body.ops))
    steps = 0
    if "expression" in op.attributes:
        steps = sum(step.op != "literal" for step in op.attributes["expression"].steps)
    elif (spec := operations().get(op.name)) is not None and spec.elementwise:
        steps = int(op.name != "copy")
    elif "size" in op.attributes and op.name in _WINDOWS:
        steps = math.prod(op.attributes["size"])
    visited = 0
    if op.name.endswith("_reduce"):
        visited = op.inputs[0].type.volume
    elif op.name == "softmax":  # maximum, difference, exponential, sum, quotient
        visited = 5 * op.inputs[0].type.volume
    elif op.name.endswith(mean_variance.NAME):  # mean, differences, their squares, factor
        visited = (6 if op.attributes["centred"] else 3) * op.inputs[0].type.volume
    items = op.outputs[0].type.volume
    if op.name == "attention":
        items = math.prod(op.attributes["scores"])
        visited = 5 * items
    elif op.name == fused_views.NAME:
        items = math.prod(op.attributes["extents"])
    return 2 * macs(op) + steps * items + visited


_WINDOWS = (
    "argmax_pool",
    "avg_pool",
    "box",
    "debox",
    "local_response_normalization",
    "max_pool",
    "max_pool_with_index",
)


def traffic_bytes(graph: Graph) -> int:
    """Bytes that operations read from each other and write for each other.

    What an operation takes counts as often as operations take it.  Weights and constants do not
    count, nor do operations that give the memory of their operand another shape.
    """
    total = 0
    for op in filter(computes, graph.ops):
        if op.name == scan.NAME:
            total += op.attributes["turns"] * traffic_bytes(op.attributes["body"])
        taken = [v for v in dict.fromkeys(op.inputs) if not is_stored(v)]
        total += sum(v.type.nbytes for v in (*taken, *op.outputs))
    return total


def computes(op: Op) -> bool:
    """Whether an operation does something: stored data is there, and views share memory."""
    spec = operations().get(op.name)
    return op.name not in ("constant", "variable") and not (spec is not None and spec.view)


def is_stored(value: Value) -> bool:
    """Whether a value is a constant or a variable."""
    return value.op is not None and value.op.name in ("constant", "variable")


def parameters(graph: Graph) -> int:
    """Items of all variables; shared ones count once."""
    return sum(variable.type.volume for variable in graph.variables.values())


def parameter_bytes(graph: Graph) -> int:
    """Bytes of all variables."""
    return sum(variable.type.nbytes for variable in graph.variables.values())


def largest_live_bytes(graph: Graph) -> int:
    """Largest sum of the activations alive at one time, in the order of the document.

    What an operation takes and gives is alive while it runs; inputs, variables and constants do not
    count.  A lower bound for the memory that any plan without fusion needs between operations.
    """
    last_use: dict[Value, int] = {}
    for position, op in enumerate(graph.ops):
        for value in op.inputs:
            last_use[value] = position
    end = len(graph)
    for value in graph.outputs:
        last_use[value] = end
    largest = live = 0
    for position, op in enumerate(graph.ops):
        if op.name in ("constant", "variable"):
            continue
        live += sum(hint(v.type.nbytes) for v in op.outputs if v in last_use)
        largest = max(largest, live + max(map(largest_live_bytes, op.bodies), default=0))
        for value in dict.fromkeys(op.inputs):
            stored = value.op is None or is_stored(value)
            if last_use[value] == position and not stored:
                live -= hint(value.type.nbytes)
    return largest
