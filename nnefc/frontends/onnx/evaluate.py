"""Evaluation of nodes: operators append operations to a graph, or compute known tensors.

Nodes run in order.  A node with an error is reported and its results are `BROKEN`; nodes that take
`BROKEN` values report what does not depend on these: names, attributes, and other inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from onnx import FunctionProto, GraphProto, NodeProto

from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames, variable_value
from nnefc.frontends.common.op_builder import MAX_FOLDED_ITEMS, OpBuilder
from nnefc.frontends.common.values import KnownTensor, OperatorError
from nnefc.frontends.onnx.attributes import attributes_of
from nnefc.frontends.onnx.checks.certain_errors import CertainErrors
from nnefc.frontends.onnx.checks.item_types import check_item_types
from nnefc.frontends.onnx.model import (
    OnnxModel,
    domain_of,
    function_key,
    initializers_of,
    opsets_of,
)
from nnefc.frontends.onnx.node import (
    ABSENT,
    BROKEN,
    BrokenBody,
    Failure,
    Node,
    Scope,
    node_text,
)
from nnefc.frontends.onnx.node_order import cycle_of
from nnefc.frontends.onnx.recorded import LAST, OnnxRecords
from nnefc.frontends.onnx.registry import bind, find
from nnefc.frontends.onnx.signature import inputs_behind
from nnefc.frontends.onnx.standard_functions import standard_function
from nnefc.frontends.onnx.tensors import Constant
from nnefc.ir import DType, Graph, Location, Value
from nnefc.ops.core.interface import sequence
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place, Step

MAX_CHAIN: Final = 16
"""Links of a chain of functions that a location stores."""
MAX_KNOWN_REALS: Final = 64
"""Items up to which a real initializer is a known tensor: scales are attributes."""


class GraphEvaluator:
    """Evaluates nodes of one model; their operations are appended to one graph.

    Operators find it as `make.evaluator`.
    """

    def __init__(
        self,
        model: OnnxModel,
        graph: Graph,
        names: VariableNames,
        budget: Budget,
        diagnostics: Diagnostics,
        states: GraphStates,
        certain: CertainErrors | None = None,
    ) -> None:
        """`certain`: notes the errors that no extents avoid."""
        self.model = model
        self.root = graph
        """The graph of the model, which has all variables; bodies of loops have others."""
        self.names = names
        self.budget = budget
        self.diagnostics = diagnostics
        self.states = states
        self.certain = certain
        self.make = OpBuilder(graph, budget)
        self.make.evaluator = self
        self._taken: dict[str, int] = {}
        self.needed: set[str] = set()
        """Inputs of the model whose items an operator that failed must know."""
        self.unchecked = 0
        """The number of nodes whose inputs are `BROKEN`."""
        self.records: OnnxRecords | None = None
        """The operators of TensorFlow Lite that groups of nodes of the main graph stand for."""
        self.failed: dict[int, Failure] = {}
        """Branches and bodies that could not be evaluated on their own, by identity."""

    def within(self, graph: Graph, diagnostics: Diagnostics | None = None) -> GraphEvaluator:
        """An evaluator of the same model that appends to another graph.

        `diagnostics`: receives its errors; by default that of this evaluator.
        """
        diagnostics = diagnostics or self.diagnostics
        other = GraphEvaluator(
            self.model, graph, self.names, self.budget, diagnostics, self.states, self.certain
        )
        other.root, other._taken, other.needed = self.root, self._taken, self.needed
        other.failed = self.failed
        other.make.location = self.make.location
        return other

    def free_name(self, name: str) -> str:
        """`name`, with a number appended if a tensor has that name already."""
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else self.free_name(f"{name}_{count}")

    # -- graphs

    def run(self, graph: GraphProto, scope: Scope) -> None:
        """Evaluate the initializers and nodes of a graph in its scope; reports errors."""
        self.add_initializers(graph, scope)
        self.run_nodes(graph.node, scope)

    def add_initializers(self, graph: GraphProto, scope: Scope) -> None:
        """Define the names of the initializers that inputs do not replace; reports errors."""
        self._begin()  # what is wrong with them does not depend on guards of the inputs
        every = [each.name for each in graph.initializer]
        every += [each.values.name for each in graph.sparse_initializer]
        for name, count in Counter(every).items():
            if count > 1:
                message = f"initializer '{name}' is defined twice"
                self.diagnostics.error("onnx/name", message, self.model.place)
        for name, proto in initializers_of(graph).items():
            if name in scope.values:
                continue
            try:
                scope.values[name] = self._as_value(self.model.initializer(proto), name)
            except OperatorError as wrong:
                self._report(wrong, f"initializer '{name}'", scope)
                scope.values[name] = BROKEN
            except NnefError as error:
                for each in error.errors:
                    message = f"initializer '{name}': {each.message}"
                    self.diagnostics.add(each._replace(message=message))
                scope.values[name] = BROKEN

    def _as_value(self, constant: Constant, name: str) -> Any:
        """A known tensor if it is small or may be a shape, otherwise a variable of the graph."""
        if not isinstance(constant, KnownTensor) or not constant.type.volume:
            return constant
        is_real = constant.dtype.is_float
        most = MAX_KNOWN_REALS if is_real else MAX_FOLDED_ITEMS
        if constant.array.size <= most and (not is_real or constant.type.rank < 2):
            is_weight = is_real or constant.dtype in (DType.INT8, DType.UINT8)
            return replace(constant, name=name) if is_weight else constant
        value = variable_value(
            self.make, self.root, self.names, name, constant.array, constant.dtype
        )
        value.name = name
        return value

    # -- nodes

    def run_nodes(self, nodes: Sequence[NodeProto], scope: Scope) -> None:
        """Evaluate nodes in order; reports errors."""
        scope.nodes = nodes
        for proto in nodes:
            self.budget.take_steps()
            node = self._node(proto, scope)
            self._begin()
            try:
                with self.make.at(Location(self._place(node), scope.chain)):
                    results = self._call(proto, node, scope)
            except BrokenBody:
                results = BROKEN
            except OperatorError as wrong:
                self._report(wrong, str(node), scope)
                results = BROKEN
            except Exhausted as exhausted:
                exhausted.place, exhausted.chain = self._place(node), scope.chain
                raise
            except NnefError as error:
                for each in error.errors:
                    is_elsewhere = each.place is not None and not each.place.node
                    place = each.place if is_elsewhere else self.model.place
                    self._add(each._replace(message=f"{node}: {each.message}", place=place))
                results = BROKEN
            except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
                message = f"it fails with these inputs: {type(error).__name__}: {error}"
                hint = "this is a bug in nnefc, which should report what is wrong with them"
                self._report(OperatorError("internal/operator", message, hint), str(node), scope)
                results = BROKEN
            self._begin()
            self._define(node, results, scope)

    def _begin(self) -> None:
        if self.certain is not None:
            self.certain.steps.begin()

    def conditional(self) -> AbstractContextManager[None]:
        """Nodes that are evaluated in the block need not run for all extents."""
        return nullcontext() if self.certain is None else self.certain.steps.conditional()

    def _node(self, proto: NodeProto, scope: Scope) -> Node:
        domain = domain_of(proto.domain)
        version = scope.opsets.get(domain, 1)
        return Node(proto.name, proto.op_type, domain, version, tuple(proto.output), scope)

    def _call(self, proto: NodeProto, node: Node, scope: Scope) -> Any:
        """The results of a node: of a function of the model, an operator, a standard function."""
        inputs = [self._input(name, scope, proto) for name in proto.input]
        attributes = attributes_of(proto, scope, self.model.tensors)
        is_broken = any(value is BROKEN for value in inputs)
        self.unchecked += is_broken
        key = function_key(proto.domain, proto.op_type, proto.overload)
        function = self.model.functions.get(key)
        if function is not None:
            if is_broken:
                return BROKEN
            return self.call_function(function, inputs, attributes, node)
        check_item_types(node, inputs)
        operator = find(node.domain, node.op_type, node.version)
        if operator is not None:
            while inputs and inputs[-1] is None:
                inputs.pop()
            positional, named = bind(operator, inputs, attributes, node)
            if is_broken:
                return BROKEN
            if node.op_type == LAST and self.records is not None:
                recorded = self.records.result(self.make, proto, scope.find, inputs)
                if recorded is not None:
                    return recorded
            return operator.function(self.make, *positional, **named)
        if is_broken:
            return BROKEN
        standard = standard_function(proto, node, inputs, attributes)
        if standard is None:
            raise OperatorError(
                "onnx/operator",
                f"version {node.version} of {node.domain or 'ai.onnx'} has no "
                f"operator '{node.op_type}'",
            )
        return self.call_function(standard, inputs, attributes, node)

    def _input(self, name: str, scope: Scope, proto: NodeProto) -> Any:
        """The value of an input; None for one that is absent."""
        if not name:
            return None
        value = scope.find(name)
        if value is ABSENT:
            return None
        if value is None:
            if cycle := cycle_of(scope.nodes, proto):
                texts = [node_text(each.op_type, each.name, each.output) for each in cycle]
                message = f"it needs its own result: {' needs '.join([*texts, texts[0]])}"
                hint = "the nodes form a cycle; feed the value of an earlier run as an input"
                raise OperatorError("onnx/name", message, hint)
            message = f"nothing before this node computes its input '{name}'"
            hint = "no node computes it, or only nodes that need results of this one"
            raise OperatorError("onnx/name", message, hint)
        return value

    def call_function(
        self, function: FunctionProto, inputs: Sequence[Any], attributes: dict[str, Any], node: Node
    ) -> Any:
        """The results of a function of the model or of the standard; raises OperatorError."""
        chain = (Step(f"in {node}", self.model.place), *node.scope.chain)
        limit = min(self.budget.limits.recursion, 200)
        if len(chain) > limit:
            raise Exhausted(
                "recursion", f"{node}: functions call each other more than {limit} levels deep"
            )
        if len(inputs) > len(function.input):
            message = f"takes at most {len(function.input)} inputs, not {len(inputs)}"
            raise OperatorError("onnx/arguments", message)
        inner = Scope(opsets_of(function), attributes={}, chain=chain)
        for default in function.attribute_proto:
            named = NodeProto(attribute=[default])
            inner.attributes = attributes_of(named, inner, self.model.tensors) | (
                inner.attributes or {}
            )
        known = {*function.attribute, *(each.name for each in function.attribute_proto)}
        for name, value in attributes.items():
            if name not in known:
                raise OperatorError("onnx/arguments", f"the function has no attribute '{name}'")
            assert inner.attributes is not None
            inner.attributes[name] = value
        given = [*inputs, *[None] * (len(function.input) - len(inputs))]
        inner.values = {
            name: ABSENT if value is None else value
            for name, value in zip(function.input, given, strict=True)
        }
        self.run_nodes(function.node, inner)
        found = [inner.values.get(name) for name in function.output]
        if any(value is BROKEN for value in found):
            return BROKEN
        return tuple(found)

    def _define(self, node: Node, results: Any, scope: Scope) -> None:
        """Assign the results of a node to its names."""
        listed = sequence(results) or [results]
        for i, name in enumerate(node.outputs):
            if not name:
                continue
            if name in scope.values:
                message = f"'{name}' is computed twice"
                self._report(OperatorError("onnx/name", message), str(node), scope)
            value = results if results is BROKEN else listed[i] if i < len(listed) else None
            if value is None:
                message = f"result {i} ('{name}') is not supported"
                self._report(OperatorError("onnx/unsupported", message), str(node), scope)
                value = BROKEN
            if isinstance(value, Value) and not value.name:
                value.name = self.free_name(name)
            scope.values[name] = value

    # -- errors

    def _place(self, node: Node) -> Place:
        """Where a node is: the file and the node."""
        return Place(self.model.place.file, node=str(node))

    def _report(self, wrong: OperatorError, what: str, scope: Scope) -> None:
        for value in wrong.unknown:
            self.needed |= inputs_behind(value, self.root)
        message = f"{what}: {wrong.message}"
        chain = scope.chain[:MAX_CHAIN]
        self._add(Diagnostic(wrong.rule, message, self.model.place, "error", chain, wrong.hint))

    def _add(self, error: Diagnostic) -> None:
        self.diagnostics.add(error)
        if self.certain is not None:
            self.certain.note(error)
