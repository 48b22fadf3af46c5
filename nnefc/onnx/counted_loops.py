"""Loops without a bound that stack results of their turns: a first run counts the turns.

A compiled model needs the number of turns, which extents of results depend on.  The model is
therefore split: for each such loop of the graph, a model without the stacked results counts its
turns; the whole model then takes the number of turns of each loop as an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nnefc.frontends.onnx.model import graphs_of, nodes_within
from nnefc.frontends.onnx.node_order import sort_nodes
from nnefc.onnx.compile_bytes import compile_bytes

if TYPE_CHECKING:
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.run.model_interface import Model

Array = np.ndarray[Any, Any]
_RANDOM: Final = ("Random", "Bernoulli", "Multinomial", "Dropout")
"""Beginnings of names of operators that compute something else in a second run."""
_COUNT: Final = "number of turns"
"""The name of the result of a model that counts turns, and the beginning of inner names."""


def can_count(proto: ModelProto) -> bool:
    """Whether a model has such loops, and computes the same in a second run."""
    nodes = list(nodes_within(proto.graph))
    for function in proto.functions:
        nodes += nodes_within(GraphProto(node=function.node))
    is_random = any(node.op_type.startswith(_RANDOM) for node in nodes)
    return not is_random and any(map(_stacks, proto.graph.node))


class CountedLoops:
    """A model that is run after the turns of its loops have been counted."""

    def __init__(
        self, proto: ModelProto, threads: int | None, symbols: Mapping[str, int] | None = None
    ) -> None:
        """`proto`: without external data.  Raises NnefError with all errors."""
        whole = ModelProto()
        whole.CopyFrom(proto)
        sort_nodes(whole)
        loops = [i for i, node in enumerate(whole.graph.node) if _stacks(node)]
        self._counters: list[tuple[str, Model]] = []
        """The models that count turns, with the inputs that take the numbers."""
        for number in loops:
            counter = _counting(whole, number)
            self._counters.append((_taking(whole, number), _compiled(counter, threads, symbols)))
        self._model = _compiled(whole, threads, symbols)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the inputs; -1 for a symbolic extent."""
        names = {name for name, _ in self._counters}
        return tuple(each for each in self._model.inputs if each.name not in names)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The same of the results."""
        return self._model.outputs

    def run(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name."""
        given = dict(named)
        for name, counter in self._counters:
            given[name] = counter.run(given)[_COUNT]
        return self._model.run(given)


def _compiled(proto: ModelProto, threads: int | None, symbols: Mapping[str, int] | None) -> Model:
    return compile_bytes(proto.SerializeToString(), threads, symbols=symbols)


def _stacks(node: NodeProto) -> bool:
    """Whether a node is a loop with results for each turn."""
    return _is_loop(node) and len(_body_of(node).output) > len(node.input) - 1


def _is_loop(node: NodeProto) -> bool:
    return node.op_type == "Loop" and node.domain in ("", "ai.onnx")


def _body_of(node: NodeProto) -> GraphProto:
    return next(each.g for each in node.attribute if each.name == "body")


def _taking(model: ModelProto, number: int) -> str:
    """Make a loop run as many turns as a new input says; returns its name."""
    node = model.graph.node[number]
    body = _body_of(node)
    name = f"{_COUNT} {number}"
    model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, []))
    node.input[0], node.input[1] = name, ""
    always = f"{_COUNT} always"
    body.initializer.append(numpy_helper.from_array(np.array(True), always))
    body.output[0].name = always
    return name


def _counting(model: ModelProto, number: int) -> ModelProto:
    """A model whose result is the number of turns of a loop."""
    changed = ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    node = graph.node[number]
    body, states = _body_of(node), len(node.input) - 2
    before, after, one = (f"{_COUNT} {each}" for each in ("before", "after", "one"))
    del body.output[1 + states :], node.output[:]
    node.output.extend([*(f"{_COUNT} state {i}" for i in range(states)), _COUNT])
    node.input.append(f"{_COUNT} none")
    graph.initializer.append(numpy_helper.from_array(np.array(0), f"{_COUNT} none"))
    body.input.append(helper.make_tensor_value_info(before, TensorProto.INT64, []))
    body.initializer.append(numpy_helper.from_array(np.array(1), one))
    body.node.append(helper.make_node("Add", [before, one], [after]))
    body.output.append(helper.make_tensor_value_info(after, TensorProto.INT64, []))
    nodes = list(_needed(graph.node[: number + 1], {_COUNT}))
    copies = [NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:], graph.output[:]
    graph.node.extend(copies)
    graph.output.append(helper.make_tensor_value_info(_COUNT, TensorProto.INT64, []))
    return changed


def _needed(nodes: Sequence[NodeProto], names: set[str]) -> Iterator[NodeProto]:
    """The nodes that compute some names, in order."""
    found: list[NodeProto] = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            found.append(node)
            inner = nodes_within(GraphProto(node=[node]))
            names.update(name for each in inner for name in each.input)
            names.update(each.name for graph in _graphs_in(node) for each in graph.output)
    return reversed(found)


def _graphs_in(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in the attributes of a node, and those within."""
    for graph in graphs_of(node):
        yield graph
        for each in graph.node:
            yield from _graphs_in(each)
