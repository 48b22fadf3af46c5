"""The cost of operations and graphs in arithmetic and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.ir import Graph, Op, Value
from nnefc.ir.graph import walk
from nnefc.ops.tools.table import operations, traits_of
from nnefc.symbolic.integers import hint


def macs(op: Op) -> int:
    """Multiply-accumulates of an operation whose shapes are known; 0 if it has no products.

    Bodies count as often as they run; of branches, the dearer one counts.  Element-wise arithmetic
    does not count.
    """
    spec = operations().get(op.name)
    if spec is None:
        return 0
    count = spec.traits.cost.multiply_adds
    bodies = cost_of_bodies(op, lambda body: sum(map(macs, body.ops)))
    return (count(op) if count is not None else 0) + bodies


def flops(op: Op) -> int:
    """Floating-point operations of an operation whose shapes are known (`nnefc.ops.core.cost`).

    A multiply-add counts as two; bodies count as in `macs`.
    """
    spec = operations().get(op.name)
    if spec is None:
        return 0
    multiply_adds, other = spec.traits.cost
    return (
        2 * (multiply_adds(op) if multiply_adds is not None else 0)
        + (other(op) if other is not None else 0)
        + cost_of_bodies(op, lambda body: sum(map(flops, body.ops)))
    )


def cost_of_bodies(op: Op, cost: Callable[[Graph], Any]) -> Any:
    """The cost of the bodies in one execution of an operation, from that of each; 0 without any."""
    spec = operations().get(op.name)
    if spec is None or spec.cost_of_bodies is None:
        return 0
    return spec.cost_of_bodies(op, [cost(body) for body in op.bodies])


def traffic_bytes(graph: Graph) -> int:
    """Bytes of activations that operations read and write.

    A value counts once for every operation that reads it.  Weights, constants and views do not
    count.
    """
    total = 0
    for op in filter(computes, graph.ops):
        total += cost_of_bodies(op, traffic_bytes)
        activations = [v for v in dict.fromkeys(op.inputs) if not is_stored(v)]
        total += sum(v.type.nbytes for v in (*activations, *op.outputs))
    return total


def computes(op: Op) -> bool:
    """Whether an operation needs a kernel: stored data and views do not."""
    return not (is_data(op) or traits_of(op).view)


def is_data(op: Op) -> bool:
    """Whether an operation is stored data: a constant or a variable."""
    return traits_of(op).data


def is_stored(value: Value) -> bool:
    """Whether a value is a constant or a variable."""
    return value.op is not None and is_data(value.op)


def parameters(graph: Graph) -> int:
    """Number of items of all variables."""
    return sum(variable.type.volume for variable in graph.variables.values())


def parameter_bytes(graph: Graph) -> int:
    """Number of bytes of all variables."""
    return sum(variable.type.nbytes for variable in graph.variables.values())


def largest_live_bytes(graph: Graph) -> int:
    """The most bytes of activations that are alive at one time, in the order of the graph.

    Operands and results of an operation are alive while it runs; inputs, variables and constants do
    not count.  Lower bound of the memory that any plan without fusion needs.
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
        if is_data(op):
            continue
        live += sum(hint(v.type.nbytes) for v in op.outputs if v in last_use)
        largest = max(largest, live + max(map(largest_live_bytes, op.bodies), default=0))
        for value in dict.fromkeys(op.inputs):
            stored = value.op is None or is_stored(value)
            if last_use[value] == position and not stored:
                live -= hint(value.type.nbytes)
    return largest


def stored_bytes(graph: Graph) -> int:
    """Bytes of the variables and constants that operations read, each variable once."""
    sizes: dict[Any, int] = {}
    for op in walk(graph):
        if is_data(op):
            label = str(op.attributes.get("label", "")).lower()
            sizes[label or op.output] = int(hint(op.output.type.nbytes))
    return sum(sizes.values())
