"""Sort the nodes of graphs: each behind those that compute its inputs.

The standard asks for this order, but files without it are common: onnxruntime sorts the nodes of
the main graph, and its converter to float16 appends the casts of inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from onnx import GraphProto, ModelProto, NodeProto

from nnefc.frontends.onnx.model import graphs_of, initializers_of


def sort_nodes(proto: ModelProto) -> list[tuple[NodeProto, str]]:
    """Sort the nodes of a model, its functions and bodies; nodes that are sorted stay as they are.

    Of nodes that need each other's results the order stays, too.  Returns the first node of each
    graph that was not sorted, with the input that a later node computes.
    """
    wrong: list[tuple[NodeProto, str]] = []
    for holder in [proto.graph, *proto.functions]:
        pending = [holder.node]
        while pending:
            nodes = pending.pop()
            if (first := _unsorted(nodes)) is not None:
                order = _sorted(nodes)
                if order is not None:
                    wrong.append(first)
                    copies = [NodeProto.FromString(nodes[i].SerializeToString()) for i in order]
                    del nodes[:]
                    nodes.extend(copies)
            pending += [graph.node for node in nodes for graph in graphs_of(node)]
    return wrong


def _unsorted(nodes: Sequence[NodeProto]) -> tuple[NodeProto, str] | None:
    """A copy of the first node with an input that this node or a later one computes; the input."""
    computed = _producers(nodes)
    for i, node in enumerate(nodes):
        for name in _needed(node):
            if computed.get(name, -1) >= i:
                return NodeProto(name=node.name, op_type=node.op_type, output=node.output), name
    return None


def _sorted(nodes: Sequence[NodeProto]) -> list[int] | None:
    """The numbers of the nodes in an order that works, close to the given one; None for cycles."""
    computed = _producers(nodes)
    behind: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for i, node in enumerate(nodes):
        for j in {computed[name] for name in _needed(node) if name in computed}:
            behind[j].append(i)
            missing[i] += 1
    ready = [i for i, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for j in behind[i]:
            missing[j] -= 1
            if not missing[j]:
                heappush(ready, j)
    return order if len(order) == len(nodes) else None


def cycle_of(nodes: Sequence[NodeProto], first: NodeProto) -> list[NodeProto]:
    """The shortest cycle through a node, in which each node needs a result of the next; else []."""
    computed = _producers(nodes)
    path: dict[int, list[NodeProto]] = {}
    pending = deque([(first, [first])])
    while pending:
        node, behind = pending.popleft()
        for number in dict.fromkeys(computed[name] for name in _needed(node) if name in computed):
            if nodes[number] is first or nodes[number] == first:
                return behind
            if number not in path:
                path[number] = [*behind, nodes[number]]
                pending.append((nodes[number], path[number]))
    return []


def _producers(nodes: Sequence[NodeProto]) -> Mapping[str, int]:
    """The number of the first node that computes each name."""
    numbers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name:
                numbers.setdefault(name, i)
    return numbers


def _needed(node: NodeProto) -> Iterator[str]:
    """The names that a node takes from its graph, also in its bodies."""
    yield from node.input
    for graph in graphs_of(node):
        own = _own_names(graph)
        for name in [*(each.name for each in graph.output), *_taken(graph)]:
            if name not in own:
                yield name


def _taken(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from _needed(node)


def _own_names(graph: GraphProto) -> set[str]:
    """The names that a graph defines."""
    names = {each.name for each in graph.input}.union(initializers_of(graph))
    return names.union(*(node.output for node in graph.node))
