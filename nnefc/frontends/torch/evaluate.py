"""Evaluation of nodes: they append operations to a graph, or compute known tensors and numbers.

Nodes run in order.  One with an error is reported and its value is `BROKEN`; nodes that take
`BROKEN` values report nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nnefc.formats.files import printable
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames, variable_value
from nnefc.frontends.common.op_builder import MAX_FOLDED_ITEMS, OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.complex_pair import (
    BY_PARTS,
    COMPONENTS,
    ComplexPair,
    from_inner,
    has_complex,
    joined,
    part,
)
from nnefc.frontends.torch.item_types import item_type
from nnefc.frontends.torch.program import Argument, Body, ItemType, Node, Program, Ref
from nnefc.frontends.torch.program import Graph as NodeGraph
from nnefc.frontends.torch.registry import bind, find, find_complex, functional
from nnefc.ir import Graph, Location, Value
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place

MAX_KNOWN_REALS: Final = 64
"""Items up to which a real array is a known tensor."""


_WRONG_ARGUMENTS: Final = (LookupError, TypeError, ValueError, ZeroDivisionError, OverflowError)
"""What Python raises for arguments that PyTorch would have refused: those of damaged programs."""


class _Broken:
    """The value of a node with an error."""


BROKEN: Final = _Broken()


@dataclass(frozen=True, slots=True)
class Build:
    """What the evaluators of all bodies share while one graph is built."""

    program: Program
    arrays: Mapping[str, Array]
    graph: Graph
    """The main graph, which has all weights."""
    names: VariableNames
    budget: Budget
    states: GraphStates
    taken: dict[str, int] = field(default_factory=dict[str, int])
    """The uses of names of tensors."""
    failed: set[str] = field(default_factory=set[str])
    """The names of the nodes with errors."""


class GraphEvaluator:
    """Evaluates nodes; their operations are appended to one graph.

    Operators find it as `make.evaluator`.
    """

    def __init__(
        self,
        build: Build,
        graph: Graph,
        diagnostics: Diagnostics,
        make: OpBuilder | None = None,
    ) -> None:
        """`make`: that of the graph if others append to it, too."""
        self.build = build
        self.diagnostics = diagnostics
        self.make = make or OpBuilder(graph, build.budget)
        self.make.evaluator = self.make.evaluator or self
        self.values: dict[str, Any] = {}
        """By name: tensors, numbers, tuples of these, None."""

    def free_name(self, name: str) -> str:
        """`name`, with a number appended if a tensor has that name already."""
        taken = self.build.taken
        count = taken[name] = taken.get(name, 0) + 1
        return name if count == 1 else self.free_name(f"{name}_{count}")

    def run(self, nodes: Sequence[Node]) -> None:
        """Evaluate nodes in order; raises Exhausted with the place of the node."""
        for node in nodes:
            try:
                self.values[node.name] = self._evaluated(node)
            except OperatorError as wrong:
                self.report(wrong, node)
                self.values[node.name] = BROKEN
            except NnefError as error:
                self.build.failed.add(node.name)
                for each in error.errors:
                    self.diagnostics.add(each._replace(place=each.place or self._place(node)))
                self.values[node.name] = BROKEN
            except Exhausted as exhausted:
                exhausted.place = exhausted.place or self._place(node)
                raise
            except _WRONG_ARGUMENTS as error:
                message = f"its arguments do not fit: {printable(repr(error))}"
                self.report(OperatorError("torch/arguments", message), node)
                self.values[node.name] = BROKEN

    def results(self, graph: NodeGraph) -> list[Any]:
        """The values of the outputs of a graph that has run."""
        return [self.resolved(each) for each in graph.outputs]

    def call(self, body: NodeGraph, inputs: Sequence[Any], make: OpBuilder) -> list[Any]:
        """The results of a body, appended to the graph of `make`.

        Raises NnefError with all errors in the body.
        """
        diagnostics = Diagnostics()
        build = replace(self.build, failed=set())  # names of bodies are those of other nodes
        frame = GraphEvaluator(build, make.graph, diagnostics, make)
        frame.values.update(zip(body.inputs, inputs, strict=True))
        frame.run(body.nodes)
        diagnostics.raise_errors()
        return frame.results(body)

    def resolved(self, argument: Argument) -> Any:
        """The value of an argument: `Ref`s are replaced, bodies stay."""
        if isinstance(argument, Ref):
            return self.values[argument.name]
        if isinstance(argument, ItemType):
            return argument.name if has_complex(argument.name) else item_type(argument.name)
        if isinstance(argument, Body):
            return self.build.program.bodies[argument.name]
        if isinstance(argument, tuple):
            return tuple(map(self.resolved, argument))
        return argument

    def _evaluated(self, node: Node) -> Any:
        given = {name: self.resolved(each) for name, each in node.arguments.items()}
        if any(map(_is_broken, given.values())):
            return BROKEN
        place = self._place(node)
        with self.make.at(Location(place)):
            return self._typed(self._called(node, given), node)

    def _called(self, node: Node, given: Mapping[str, Any]) -> Any:
        """The result of an operator; raises OperatorError."""
        function = find(node.target)
        if any(map(has_complex, given.values())):
            if functional(node.target) in BY_PARTS:
                real, imag = (
                    self._called(node, {name: part(each, i) for name, each in given.items()})
                    for i in range(2)
                )
                return joined(real, imag)
            function = find_complex(node.target) or function
        if function is None:
            raise OperatorError("torch/operator", "nnefc does not have this operator")
        return function.function(self.make, **bind(function, given, node))

    def _typed(self, result: Any, node: Node) -> Any:
        """A result whose tensors have the item types that the program states, and names."""
        if isinstance(result, tuple):
            several: tuple[Any, ...] = result  # pyright: ignore[reportUnknownVariableType]
            dtypes = (*node.dtypes, *[None] * (len(several) - len(node.dtypes)))
            return tuple(self._tensor(*pair, node) for pair in zip(several, dtypes))
        return self._tensor(result, node.dtypes[0] if node.dtypes else None, node)

    def _tensor(self, x: Any, dtype: str | None, node: Node) -> Any:
        if isinstance(x, ComplexPair):
            component = COMPONENTS[dtype].value if dtype else None
            return ComplexPair(*(self._tensor(y, component, node) for y in (x.real, x.imag)))
        if not isinstance(x, Value | KnownTensor):
            return x
        x = self.make.cast(x, item_type(dtype)) if dtype is not None else x
        if isinstance(x, Value) and not x.name:
            x.name = self.free_name(node.name)
        return x

    def constant(self, label: str, name: str, dtype: str) -> Operand | ComplexPair:
        """A tensor of the program; the parts of a complex one are the last dimension."""
        x = self.array(label, name)
        return from_inner(self.make, x) if dtype in COMPONENTS else x

    def array(self, label: str, name: str) -> Operand:
        """An array of the program: a known tensor if it is small, otherwise a variable."""
        array = self.build.arrays[label]
        dtype = item_type(array.dtype.name)
        is_small = array.size <= (MAX_KNOWN_REALS if dtype.is_float else MAX_FOLDED_ITEMS)
        if not array.size or (is_small and (not dtype.is_float or array.ndim < 2)):
            return KnownTensor(array, dtype, name=name if dtype.is_float else "")
        graph, names = self.build.graph, self.build.names
        value = variable_value(self.make, graph, names, label, array, dtype)
        value.name = value.name or self.free_name(name)
        return value

    def _place(self, node: Node) -> Place:
        return node.place or Place(self.build.program.file)

    def report(self, wrong: OperatorError, node: Node) -> None:
        """Report an error of a node."""
        self.build.failed.add(node.name)
        message = f"{node}: {wrong.message}"
        place = self._place(node)
        self.diagnostics.add(Diagnostic(wrong.rule, message, place, "error", (), wrong.hint))


def _is_broken(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_broken, value))  # pyright: ignore[reportUnknownArgumentType]
    return value is BROKEN
