"""Evaluation of operators: they append operations to a graph, or compute known tensors.

Operators run in order.  One with an error is reported and its results are `BROKEN`; operators that
take `BROKEN` values report nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nnefc.formats.tflite.model import Model, Operator, Subgraph, Tensor
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.graph_variables import VariableNames, variable_value
from nnefc.frontends.common.op_builder import MAX_FOLDED_ITEMS, OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.check_operators import node_of
from nnefc.frontends.tflite.complex_tensors import by_parts, is_complex
from nnefc.frontends.tflite.memory import RANDOM, START, Memory, generator_name
from nnefc.frontends.tflite.operators.codes.real_form import in_reals, reads_or_writes_codes
from nnefc.frontends.tflite.registry import Node, bind, find
from nnefc.frontends.tflite.subgraph_calls import reachable
from nnefc.frontends.tflite.tensors import constant
from nnefc.ir import Graph, Location, Value
from nnefc.ops.core.interface import sequence
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

MAX_KNOWN_REALS: Final = 64
"""Items up to which a real constant is a known tensor."""


class _Broken:
    """The value of a tensor that an operator with an error should have computed."""


BROKEN: Final = _Broken()


def labels_of(tensors: Sequence[Tensor]) -> list[str]:
    """Distinct labels of tensors: their names; several with one name have their index, too."""
    counts = Counter(each.name for each in tensors)
    return [
        each.name if counts[each.name] == 1 and "\0" not in each.name else f"{each.name}\0{i}"
        for i, each in enumerate(tensors)
    ]


@dataclass(frozen=True, slots=True)
class Build:
    """What the evaluators of all subgraphs share while one graph is built."""

    model: Model
    graph: Graph
    """The main graph, which has all weights."""
    names: VariableNames
    budget: Budget
    in_reals: bool = False
    """Whether operators on codes are computed in reals, see `operators.codes.real_form`."""
    entropy: int = 0
    """The seed of random numbers without one."""
    taken: dict[str, int] = field(default_factory=dict[str, int])
    """The uses of names of tensors."""


class SubgraphEvaluator:
    """Evaluates the operators of a subgraph; their operations are appended to one graph.

    Operators find it as `make.evaluator`.
    """

    def __init__(
        self,
        build: Build,
        subgraph: Subgraph,
        graph: Graph,
        diagnostics: Diagnostics,
        memory: Memory,
    ) -> None:
        self.build = build
        self.file = build.model.file
        self.subgraph = subgraph
        self.diagnostics = diagnostics
        self.memory = memory
        self.make = OpBuilder(graph, build.budget)
        self.make.evaluator = self
        self.values: dict[int, Any] = {}
        """The values of tensors by index."""
        self._labels = labels_of(subgraph.tensors)

    def free_name(self, name: str) -> str:
        """`name`, with a number appended if a tensor has that name already."""
        taken = self.build.taken
        count = taken[name] = taken.get(name, 0) + 1
        return name if count == 1 else self.free_name(f"{name}_{count}")

    # -- subgraphs

    def within(self, graph: Graph, diagnostics: Diagnostics, memory: Memory) -> SubgraphEvaluator:
        """An evaluator for calls of subgraphs into another graph, a body."""
        return SubgraphEvaluator(self.build, self.subgraph, graph, diagnostics, memory)

    def call(
        self,
        index: int,
        inputs: Sequence[Any],
        operators: Sequence[Operator] | None = None,
    ) -> list[Any]:
        """The results of a subgraph, whose operations are appended to this graph.

        `operators`: those that run, by default all.  Raises OperatorError.
        """
        subgraph, make = self.build.model.subgraphs[index], self.make
        if len(inputs) != len(subgraph.inputs):
            message = f"{subgraph} takes {len(subgraph.inputs)} inputs, not {len(inputs)}"
            raise OperatorError("tflite/arguments", message)
        inner = SubgraphEvaluator(self.build, subgraph, make.graph, self.diagnostics, self.memory)
        inner.make.counted, inner.make.known = make.counted, make.known
        inner.make.reals, inner.make.captured = make.reals, make.captured
        inner.values.update(zip(subgraph.inputs, inputs, strict=True))
        inner.run(operators)
        if operators is not None:
            return [inner.values.get(i) for i in subgraph.outputs]
        return [inner.value(subgraph.tensors[i]) for i in subgraph.outputs]

    # -- operators

    def run(self, operators: Sequence[Operator] | None = None) -> None:
        """Evaluate operators in order, by default all; reports errors."""
        for operator in self.subgraph.operators if operators is None else operators:
            node = node_of(self.subgraph, operator.index)
            place = Place(self.file, node=str(node))
            self.make.budget.take_steps()
            try:
                with self.make.at(Location(place)):
                    results = self._call(node)
            except OperatorError as wrong:
                self.report(wrong, str(node))
                results = BROKEN
            except Exhausted as exhausted:
                exhausted.place = exhausted.place or place
                raise
            except NnefError as error:
                for each in error.errors:
                    message = f"{self.subgraph}, {node}: {each.message}"
                    self.diagnostics.add(each._replace(message=message, place=Place(self.file)))
                results = BROKEN
            except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
                message = f"it fails with these inputs: {type(error).__name__}: {error}"
                hint = "this is a bug in nnefc, which should report what is wrong with them"
                self.report(OperatorError("internal/operator", message, hint), str(node))
                results = BROKEN
            self._define(node, results)

    def _call(self, node: Node) -> Any:
        """The results of an operator; raises OperatorError."""
        inputs = [None if each is None else self.value(each) for each in node.inputs]
        if any(each is BROKEN for each in inputs):
            return BROKEN
        if self.build.in_reals and reads_or_writes_codes(node):
            return in_reals(self.make, node, inputs)
        registered = find(node)
        if registered is None:
            raise OperatorError("tflite/operator", "it is not supported for these item types")
        own = registered

        def call(given: Sequence[Any]) -> Any:
            positional, named = bind(own, given, node)
            return own.function(self.make, *positional, **named)

        if registered.moves_items and is_complex(inputs):
            return by_parts(call, inputs)
        return call(inputs)

    def value(self, tensor: Tensor) -> Any:
        """The value of a tensor that operators read; raises OperatorError for its items."""
        index = tensor.index
        if index in self.values:
            return self.values[index]
        if tensor.is_variable:
            return self.memory.variable(self._state_name(index), tensor)
        value = self.values[index] = self._constant(tensor)
        return value

    def _constant(self, tensor: Tensor) -> Operand:
        """A known tensor if it is small or may be a shape, otherwise a variable of the graph."""
        known = constant(tensor)
        if not known.type.volume:
            return known
        is_real = known.dtype.is_float
        most = MAX_KNOWN_REALS if is_real else MAX_FOLDED_ITEMS
        if known.array.size <= most and (not is_real or known.type.rank < 2):
            return replace(known, name=tensor.name) if is_real else known
        label = self._labels[tensor.index]
        if self.subgraph.index:
            label += f"\0{self.subgraph.index}"
        graph, names = self.build.graph, self.build.names
        value = variable_value(self.make, graph, names, label, known.array, known.dtype)
        value.name = self.free_name(tensor.name or f"tensor_{tensor.index}")
        return value

    def _state_name(self, index: int) -> str:
        """The name of the state of a variable tensor: that of the tensor, if it is unique."""
        name = self.subgraph.tensors[index].name
        if self.subgraph.index:
            return f"{name}_{self.subgraph.index}_{index}"
        same = [each for each in self.subgraph.tensors if each.is_variable and each.name == name]
        return name if name and len(same) == 1 else f"{name}_{index}"

    def assign(self, tensor: Tensor | None, value: Operand) -> None:
        """Replace the value of a variable tensor; raises OperatorError for another tensor."""
        if tensor is None or not tensor.is_variable:
            raise OperatorError("tflite/arguments", "its state must be a variable tensor")
        self.memory.assign(self._state_name(tensor.index), value)

    def _define(self, node: Node, results: Any) -> None:
        """Assign the results of an operator to its tensors."""
        listed: Sequence[Any] = sequence(results) or [results]
        for i, tensor in enumerate(node.outputs):
            if tensor is None:
                continue
            value = results if results is BROKEN else listed[i] if i < len(listed) else None
            if value is None:
                message = f"its result {i} ({tensor}) is not supported"
                self.report(OperatorError("tflite/unsupported", message), str(node))
                value = BROKEN
            if isinstance(value, Value) and not value.name and tensor.name:
                value.name = self.free_name(tensor.name)
            self.values[tensor.index] = value

    def touch_variables(self, indices: Sequence[int]) -> None:
        """Load the variable tensors of subgraphs, and all resources, before bodies use them."""
        self.memory.load_all()
        for index in indices:
            subgraph = self.build.model.subgraphs[index]
            frame = SubgraphEvaluator(
                self.build, subgraph, self.make.graph, self.diagnostics, self.memory
            )
            for tensor in subgraph.tensors:
                if tensor.is_variable:
                    frame.value(tensor)

    def restart_generators(self, indices: Sequence[int]) -> None:
        """Begin the random numbers anew of all that subgraphs reach, as LiteRT does per call."""
        model = self.build.model
        for index in {each for start in indices for each in reachable(model, start)}:
            subgraph = model.subgraphs[index]
            for operator in subgraph.operators:
                if operator.name in RANDOM:
                    self.memory.values[generator_name(subgraph, operator)] = START

    def report(self, wrong: OperatorError, what: str) -> None:
        """Report an error of an operator or a tensor."""
        message = f"{self.subgraph}, {what}: {wrong.message}"
        place = Place(self.file)
        self.diagnostics.add(Diagnostic(wrong.rule, message, place, "error", (), wrong.hint))
