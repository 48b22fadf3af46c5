"""The nodes of a graph that its results depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from nnefc.frontends.torch.program import Argument, Graph, Node, Ref
from nnefc.frontends.torch.registry import is_in_place, is_of_another_library


def used_nodes(nodes: Sequence[Node], outputs: tuple[Argument, ...]) -> tuple[Node, ...]:
    """The nodes that outputs depend on, and those that change a tensor in place.

    Operators of other libraries, which nnefc refuses by name, may do that too.
    """
    wanted = set(names_in(outputs))
    used: list[Node] = []
    for node in reversed(nodes):
        if node.name in wanted or is_in_place(node.target) or is_of_another_library(node.target):
            used.append(node)
            wanted.update(names_in(tuple(node.arguments.values())))
    return tuple(reversed(used))


def without_outputs(graph: Graph, dropped: Collection[int]) -> Graph:
    """A graph that lacks the outputs at these places, and the nodes that only they depend on."""
    outputs = tuple(x for i, x in enumerate(graph.outputs) if i not in dropped)
    return Graph(graph.inputs, used_nodes(graph.nodes, outputs), outputs)


def names_in(argument: Argument) -> Iterator[str]:
    """The names of the values in an argument."""
    if isinstance(argument, Ref):
        yield argument.name
    elif isinstance(argument, tuple):
        for each in argument:
            yield from names_in(each)
