"""Build the graph of a program: bind inputs, evaluate the nodes, connect outputs and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.extents import extent_of
from nnefc.frontends.common.graph_outputs import add_counts, add_output
from nnefc.frontends.common.graph_states import GraphStates, PriorState
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.operand_checks import check_input
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Array, EmptyTensor, Operand, OperatorError, operand
from nnefc.frontends.torch.complex_pair import ComplexPair
from nnefc.frontends.torch.evaluate import BROKEN, Build, GraphEvaluator
from nnefc.frontends.torch.item_types import item_type
from nnefc.frontends.torch.program import (
    Appended,
    Input,
    InputKind,
    Output,
    OutputKind,
    Program,
    Ref,
)
from nnefc.frontends.torch.program_error import raise_errors
from nnefc.ir import Graph, TensorType
from nnefc.ops.extended import append
from nnefc.support.errors import Diagnostic, Diagnostics, Place
from nnefc.support.limits import Limits, how_to_raise
from nnefc.syntax.parser import parse_expression


def build_graph(
    program: Program,
    arrays: Mapping[str, Array],
    shapes: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    outputs: Sequence[str],
    limits: Limits,
    names: VariableNames,
    states: GraphStates,
    diagnostics: Diagnostics,
) -> Graph:
    """The graph of a program; raises NnefError with all errors.

    `shapes`: of all user inputs, by label.  `symbols`: their values, which may be symbolic.
    `outputs`: the names of the results in order.
    """
    graph = Graph(program.name)
    count = sum(1 for _ in program.nodes())
    build = Build(program, arrays, graph, names, Budget(limits, 64 * count), states)
    evaluator = GraphEvaluator(build, graph, diagnostics)
    bound = _Inputs(evaluator, shapes, symbols)
    for each in program.inputs:
        bound.add(each)
    try:
        evaluator.run(program.graph.nodes)
    except Exhausted as exhausted:
        rule, hint = f"limit/{exhausted.limit}", how_to_raise(exhausted.limit)
        place = exhausted.place or Place(program.file)
        diagnostics.error(rule, exhausted.message, place, hint=hint)
    raise_errors(diagnostics, build.failed)
    for each in program.appended:
        memory, rows = bound.memories[each.input]
        items = operand(evaluator.resolved(each.items))
        evaluator.make(append.NAME, memory, items, axis=each.axis, begin=rows)
    for each, name in zip(program.results, outputs, strict=True):
        _add_result(evaluator, each, name)
    for each in program.outputs:
        if each.kind is OutputKind.STATE:
            states.store(each.label, bound.states.get(each.label), _value(evaluator, each))
    raise_errors(diagnostics, build.failed)
    states.add_inputs(graph)
    states.add_outputs(evaluator.make)
    add_counts(evaluator.make)
    return graph


class _Inputs:
    """Binds the inputs of a program."""

    def __init__(
        self,
        evaluator: GraphEvaluator,
        shapes: Mapping[str, Sequence[int]],
        symbols: Mapping[str, int],
    ) -> None:
        self._evaluator = evaluator
        self._shapes = shapes
        self._symbols = symbols
        self.states: dict[str, PriorState | None] = {}
        """The states before the call, by label."""
        self._appended = {each.input: each for each in evaluator.build.program.appended}
        self.memories: dict[str, tuple[Operand, int]] = {}
        """The inputs that rows are appended to, and how many rows they have, by name."""

    def add(self, each: Input) -> None:
        """Define the value of an input; reports errors."""
        evaluator = self._evaluator
        try:
            evaluator.values[each.name] = self._value(each)
        except OperatorError as wrong:
            message = f"input '{each.label}': {wrong.message}"
            place = Place(evaluator.build.program.file)
            error = Diagnostic(wrong.rule, message, place, "error", (), wrong.hint)
            evaluator.diagnostics.add(error)
            evaluator.values[each.name] = BROKEN

    def _value(self, each: Input) -> Operand | ComplexPair | int:
        evaluator = self._evaluator
        if each.kind is InputKind.VALUE:
            name = evaluator.free_name(each.label)
            evaluator.make.graph.add_input(TensorType(item_type(each.dtype), ()), name)
        if each.kind in (InputKind.NUMBER, InputKind.VALUE):
            return extent_of(parse_expression(each.extents[0]), self._symbols)
        if each.kind is InputKind.ARRAY:
            return evaluator.constant(each.label, each.name, each.dtype)
        dtype = item_type(each.dtype)
        if each.kind is InputKind.STATE:
            before = evaluator.build.states.prior(each.label, dtype, len(each.extents))
            self.states[each.label] = before
            return evaluator.array(each.label, each.name) if before is None else before.value
        type_ = TensorType(dtype, tuple(self._shapes[each.label]))
        check_input(each.label, type_, evaluator.build.budget.limits)
        value = evaluator.make.graph.add_input(type_, evaluator.free_name(each.label))
        if each.name in self._appended:
            return self._rows(value, self._appended[each.name])
        return EmptyTensor(type_) if 0 in type_.dims else value

    def _rows(self, memory: Operand, appended: Appended) -> Operand:
        """The rows that the memory of an input has."""
        rows = extent_of(parse_expression(appended.rows), self._symbols)
        self.memories[appended.input] = memory, rows
        return slice_in_dim(self._evaluator.make, memory, appended.axis, 0, rows)


def _value(evaluator: GraphEvaluator, each: Output) -> Operand:
    """The tensor of a result; a number is one of rank 0."""
    return operand(evaluator.resolved(each.value))


def _add_result(evaluator: GraphEvaluator, each: Output, name: str) -> None:
    make = evaluator.make
    try:
        add_output(make.graph, make.value(_value(evaluator, each), may_be_empty=True), name)
    except OperatorError as wrong:
        made_by = f" of '{each.value.name}'" if isinstance(each.value, Ref) else ""
        message = f"output '{name}'{made_by}: {wrong.message}"
        place = Place(evaluator.build.program.file)
        evaluator.diagnostics.add(Diagnostic(wrong.rule, message, place, "error", (), wrong.hint))
        if isinstance(each.value, Ref):
            evaluator.build.failed.add(each.value.name)
