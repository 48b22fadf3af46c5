"""Count the nodes to which the calls of functions expand, before any of them is evaluated."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from onnx import GraphProto, NodeProto

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.onnx.model import FunctionKey, OnnxModel, function_key, nodes_within
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import how_to_raise

MOST: Final = 10**30
"""Larger numbers of nodes are counted as this one."""

Sizes = dict[FunctionKey, int]
"""The nodes to which a call of each function expands."""


def check_expanded_size(model: OnnxModel, diagnostics: Diagnostics) -> None:
    """Report a model whose functions expand to more nodes than may be evaluated.

    Every node takes at least one step (`Limits.steps`).  The number is a lower bound: of the
    branches of an `If` the smaller one counts, since the condition may be known.
    """
    called = _called(model, model.graph)
    if not called:
        return
    sizes = _sizes(model)
    total = _expanded(model, model.graph, sizes)
    allowed = Budget(model.limits, len(model.text)).allowed_steps
    if total <= allowed:
        return
    largest = max(called, key=lambda key: sizes[key])
    message = f"the graph expands to {_number(total)} nodes, {_number(sizes[largest])} in each "
    message += f"call of function '{_name(largest)}'; at most {allowed:,} are evaluated"
    diagnostics.error("limit/steps", message, model.place, hint=how_to_raise("steps"))


def check_recursion(model: OnnxModel, diagnostics: Diagnostics) -> None:
    """Report functions that call themselves, each cycle once."""
    bodies = {key: GraphProto(node=each.node) for key, each in model.functions.items()}
    called = {key: sorted(_called(model, body)) for key, body in bodies.items()}
    reported: set[FunctionKey] = set()
    for key in called:
        if key not in reported and (cycle := _cycle(called, key)):
            reported.update(cycle)
            others = " and ".join(f"'{_name(each)}'" for each in cycle[1:])
            by = f", by way of {others}" if others else ""
            message = f"function '{_name(key)}' calls itself{by}"
            hint = "a function of ONNX cannot be recursive; Loop repeats nodes"
            diagnostics.error("onnx/function", message, model.place, hint=hint)


def _cycle(
    called: Mapping[FunctionKey, Sequence[FunctionKey]], key: FunctionKey
) -> list[FunctionKey]:
    """The shortest chain of calls from a function to itself, which it starts with; else []."""
    chains = {each: [key] for each in called[key]}
    pending = deque(called[key])
    while pending:
        current = pending.popleft()
        if current == key:
            return chains[current]
        for each in called[current]:
            if each not in chains:
                chains[each] = [*chains[current], current]
                pending.append(each)
    return []


def _sizes(model: OnnxModel) -> Sizes:
    """The sizes of all functions, innermost first; a call of a function within itself has none."""
    bodies = {key: GraphProto(node=each.node) for key, each in model.functions.items()}
    called = {key: _called(model, body) for key, body in bodies.items()}
    sizes: Sizes = {}
    entered: set[FunctionKey] = set()
    pending = list(bodies)
    while pending:
        key = pending[-1]
        inner = [] if key in entered else [each for each in called[key] if each not in entered]
        entered.add(key)
        if inner:
            pending += inner
            continue
        pending.pop()
        if key not in sizes:
            sizes[key] = _expanded(model, bodies[key], sizes)
    return sizes


def _called(model: OnnxModel, graph: GraphProto) -> set[FunctionKey]:
    """The functions that a graph and the graphs within call."""
    return {key for node in nodes_within(graph) if (key := _key(node)) in model.functions}


def _expanded(model: OnnxModel, graph: GraphProto, sizes: Sizes) -> int:
    """The number of nodes of a graph whose calls expand to `sizes`, at most `MOST`."""
    count = len(graph.node)
    for node in graph.node:
        bodies = (each.g for each in node.attribute if each.HasField("g"))
        if (key := _key(node)) in model.functions:
            count += sizes.get(key, 0)
        elif node.op_type == "If":
            count += min((_expanded(model, body, sizes) for body in bodies), default=0)
        elif node.op_type in ("Loop", "Scan"):
            count += sum(_expanded(model, body, sizes) for body in bodies)
    return min(count, MOST)


def _key(node: NodeProto) -> FunctionKey:
    return function_key(node.domain, node.op_type, node.overload)


def _name(key: FunctionKey) -> str:
    """The name of a function with its domain and overload."""
    domain, name, overload = key
    full = f"{domain}.{name}" if domain else name
    return f"{full}:{overload}" if overload else full


def _number(count: int) -> str:
    return f"more than 10^{len(str(MOST)) - 1}" if count >= MOST else f"{count:,}"
