"""Evaluation of subgraphs, and the names that they take from the graphs around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import GraphProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.onnx.model import initializers_of
from nnefc.frontends.onnx.node import BROKEN, BrokenBody, Scope, Subgraph
from nnefc.frontends.onnx.sequences import TensorSequence
from nnefc.ir import Value
from nnefc.support.errors import Step

if TYPE_CHECKING:
    from nnefc.frontends.onnx.evaluate import GraphEvaluator

Captured = Mapping[str, Any]
"""Values of names of the graphs around a subgraph."""


def evaluated(
    make: OpBuilder,
    subgraph: Subgraph,
    inputs: Sequence[Any] = (),
    captured: Captured | None = None,
) -> list[Any]:
    """The results of a subgraph, whose operations are appended to the graph of `make`.

    `captured`: values that names of the surrounding graphs have instead of their own.
    Raises OperatorError, BrokenBody after errors within.
    """
    evaluator: GraphEvaluator = make.evaluator
    proto, around = subgraph.proto, subgraph.scope
    if len(inputs) != len(proto.input):
        message = f"the graph '{proto.name}' takes {len(proto.input)} inputs, not {len(inputs)}"
        raise OperatorError("onnx/arguments", message)
    step = Step(f"in the graph '{proto.name}'", evaluator.model.place)
    scope = Scope(around.opsets, dict(captured or {}), around, around.attributes)
    scope.chain = (step, *around.chain)
    given = {each.name: value for each, value in zip(proto.input, inputs, strict=True)}
    scope.values.update(given)
    evaluator.run(proto, scope)
    found = [scope.find(output.name) for output in proto.output]
    for output, value in zip(proto.output, found, strict=True):
        if value is None:
            raise OperatorError("onnx/name", f"nothing computes the output '{output.name}'")
    if any(value is BROKEN for value in found):
        raise BrokenBody
    return found


def captured_values(subgraph: Subgraph) -> dict[str, Any]:
    """The values that a subgraph takes from the graphs around it and that the model computes.

    Known values are left out: they are the same in all graphs.
    """
    names = dict.fromkeys(_free_names(subgraph.proto))
    values = {name: subgraph.scope.find(name) for name in names}
    return {name: value for name, value in values.items() if _is_computed(value)}


def _is_computed(value: Any) -> bool:
    if isinstance(value, TensorSequence):
        return any(map(_is_computed, value.items))
    return isinstance(value, Value)


def _free_names(graph: GraphProto) -> Iterator[str]:
    """The names in a graph and the graphs within that neither defines before."""
    own = {*(each.name for each in graph.input), *initializers_of(graph)}
    for node in graph.node:
        yield from (name for name in node.input if name and name not in own)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from (name for name in _free_names(inner) if name not in own)
        own.update(node.output)
    yield from (output.name for output in graph.output if output.name not in own)
