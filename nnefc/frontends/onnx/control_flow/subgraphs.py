"""Evaluation of subgraphs, and the names that they take from the graphs around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import GraphProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.model import initializers_of
from nnefc.frontends.onnx.node import BROKEN, BrokenBody, Scope, Subgraph
from nnefc.frontends.onnx.sequences import TensorSequence, tensors_in, with_tensors
from nnefc.ir import Op, Value
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
    with evaluator.conditional():
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


class CapturedTensors:
    """Captured values as operands of an operation with a body, and inside of the body.

    Behind the tensors, the numbers of their valid items are operands, too.  Weights are no
    operands: the body has variables of its own for them, whose data operators can read.
    """

    def __init__(self, make: OpBuilder, captured: Captured) -> None:
        """`make`: builds the graph around the body."""
        self._make, self._captured = make, captured
        self._tensors = list(tensors_in(captured.values()))
        self._passed = [x for x in self._tensors if not _is_weight(x)]
        self._counts = [make.counted.get(x) if isinstance(x, Value) else None for x in self._passed]

    @property
    def operands(self) -> list[Operand]:
        """The tensors that are no weights, then the numbers of valid items."""
        return [*self._passed, *(count[1] for count in self._counts if count is not None)]

    def inside(self, within: OpBuilder, operands: Sequence[Operand]) -> dict[str, Any]:
        """The values by name in the body, whose graph `within` builds, for its operands."""
        make = self._make
        within.captured.update(make.captured)
        numbers = iter(operands[len(self._passed) :])
        for outer, x, count in zip(self._passed, operands, self._counts, strict=False):
            if not isinstance(x, Value) or not isinstance(outer, Value):
                continue
            within.captured[x] = outer
            if outer in make.known:
                within.known[x] = make.known[outer]
            if outer in make.reals:
                within.reals[x] = make.reals[outer]
            if count is not None:
                number = next(numbers)
                assert isinstance(number, Value)
                within.counted[x] = count[0], number
        passed = iter(operands)
        tensors = (_weight(within, x) if _is_weight(x) else next(passed) for x in self._tensors)
        return dict(zip(self._captured, rebuilt(self._captured.values(), tensors), strict=True))


def _is_weight(x: Operand) -> bool:
    return isinstance(x, Value) and x.op is not None and x.op.name == "variable"


def _weight(within: OpBuilder, x: Operand) -> Value:
    """The variable of a weight in the graph of a body."""
    assert isinstance(x, Value)
    assert x.op is not None
    key = x.op.attributes["label"].lower()
    within.graph.variables[key] = within.evaluator.root.variables[key]
    op = Op("variable", (), x.op.attributes, [x.type], location=x.op.location)
    return within.graph.insert(op).output


def rebuilt(values: Iterable[Any], tensors: Iterator[Operand]) -> list[Any]:
    """Values of the same form with other tensors."""
    return [with_tensors(value, tensors) for value in values]


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
