"""Build the graph of a model: bind symbols, evaluate the nodes, connect inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.bind_symbols import bind, evaluated_shapes
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.extents import NoValue, extent_of
from nnefc.frontends.common.graph_outputs import add_counts, add_output
from nnefc.frontends.common.graph_states import GraphStates, KeptInputs
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_input
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.values import EmptyTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.checks.certain_errors import CertainErrors
from nnefc.frontends.onnx.checks.declared_outputs import check_declared_outputs
from nnefc.frontends.onnx.evaluate import GraphEvaluator
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.narrow_bytes import bytes_of, from_bytes
from nnefc.frontends.onnx.narrow_types import NarrowTensor, is_narrow
from nnefc.frontends.onnx.node import BROKEN, Scope
from nnefc.frontends.onnx.recorded import OnnxRecords
from nnefc.frontends.onnx.sequences import NoElement, TensorSequence
from nnefc.frontends.onnx.signature import inputs_of, interface_type, known_tensor, tensor_type_of
from nnefc.frontends.onnx.tensors import StorageTensor
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import how_to_raise, room_for_recursion
from nnefc.support.wording import wording


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A model whose nodes are evaluated."""

    model: OnnxModel
    evaluator: GraphEvaluator
    scope: Scope
    diagnostics: Diagnostics
    kept: KeptInputs

    @property
    def results(self) -> list[tuple[str, Any]]:
        """The names and values of the results; None for those that nothing computes."""
        names = (each.name for each in self.model.graph.output)
        return [(name, self.scope.find(name)) for name in names]

    def graph(self) -> Graph:
        """The graph with its results; raises NnefError with all errors of these."""
        graph = self.evaluator.root
        _add_outputs(self)
        self.diagnostics.raise_errors()
        return graph


def evaluate_model(
    model: OnnxModel,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, int],
    lifted: Mapping[str, int] | None,
    names: VariableNames,
    states: GraphStates,
    diagnostics: Diagnostics,
    needed: set[str] | None = None,
    kept: KeptInputs | None = None,
    certain: CertainErrors | None = None,
) -> EvaluatedModel:
    """Evaluate a model for input `shapes` by name; raises NnefError with all errors.

    Args:
        model: The model.
        signature: Of the model's inputs.
        shapes: Shapes of inputs.
        given: Values of symbols beside those that `shapes` determine.
        lifted: Values of the other symbols, which may be symbolic (`nnefc.symbolic.integers`).
        names: The names of variables, shared by all graphs of the model.
        states: The states of random number generators.
        diagnostics: Receives warnings and errors.
        needed: Receives the names of inputs whose values operators that fail must know.
        kept: The inputs that a session keeps.
        certain: Notes the errors that no extents avoid.
    """
    values: Mapping[str, int] = bind(signature, shapes, given)
    if lifted is not None:
        values = {**given, **lifted}
        shapes = evaluated_shapes(signature, shapes, values)
    graph = Graph(model.graph.name or "graph")
    budget = Budget(model.limits, len(model.text))
    evaluator = GraphEvaluator(model, graph, names, budget, diagnostics, states, certain)
    evaluator.records = OnnxRecords.of(model)
    scope = Scope(model.opsets)
    kept = kept or KeptInputs({}, states, in_place=False)
    _add_inputs(model, signature, shapes, values, evaluator, scope, diagnostics, kept)
    diagnostics.raise_errors()
    try:
        with room_for_recursion():
            evaluator.run(model.graph, scope)
    except Exhausted as exhausted:
        rule, hint = f"limit/{exhausted.limit}", how_to_raise(exhausted.limit)
        diagnostics.error(rule, exhausted.message, exhausted.place, hint=hint)
    except RecursionError:
        diagnostics.error("limit/recursion", "functions nest too deeply", model.place)
    if needed is not None:
        needed |= evaluator.needed
    if evaluator.records is not None and (ignored := evaluator.records.warning()):
        diagnostics.add(ignored)
    if number := evaluator.unchecked:
        message = f"{number} {'nodes need' if number > 1 else 'node needs'} results of nodes with "
        message += "errors: their shapes and types are not checked"
        diagnostics.add(Diagnostic("onnx/unchecked", message, model.place, "note"))
    check_declared_outputs(model, signature, evaluator.make, scope, diagnostics)
    diagnostics.raise_errors()
    return EvaluatedModel(model, evaluator, scope, diagnostics, kept)


def check_without_inputs(model: OnnxModel, diagnostics: Diagnostics) -> None:
    """Report the errors of a model with unknown operators that depend on no input and no result.

    These are wrong names, arguments and constants; the unknown operators are reported already.
    """
    found = Diagnostics(limit=model.limits.errors)
    budget = Budget(model.limits, len(model.text))
    graph, states = Graph(model.graph.name or "graph"), GraphStates({})
    evaluator = GraphEvaluator(model, graph, VariableNames(), budget, found, states)
    scope = Scope(model.opsets, {each.name: BROKEN for each in inputs_of(model)})
    with suppress(Exhausted, NnefError, RecursionError), room_for_recursion():
        evaluator.run(model.graph, scope)
    for each in found.errors:
        if each.rule != "onnx/operator":
            diagnostics.add(each)


def _add_inputs(
    model: OnnxModel,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, int],
    evaluator: GraphEvaluator,
    scope: Scope,
    diagnostics: Diagnostics,
    kept: KeptInputs,
) -> None:
    """Add the inputs to the graph and to the scope; reports those without a shape."""
    declared = {each.name: each for each in signature.inputs}
    for each in inputs_of(model):
        tensor = tensor_type_of(each)
        assert tensor is not None
        if each.name in kept:
            try:
                items = kept.add(evaluator.make, each.name, values)
                scope.values[each.name] = _interpreted(evaluator.make, items, tensor.elem_type)
            except OperatorError as wrong:
                diagnostics.error(wrong.rule, wrong.message, model.place, hint=wrong.hint)
            continue
        dims = shapes.get(each.name)
        known = declared.get(each.name)
        dtype = known.dtype if known else interface_type(tensor.elem_type)
        if dims is None and known is not None:
            try:
                dims = [extent_of(extent, values) for extent in known.extents]
            except NoValue as error:
                message = f"the shape of input '{each.name}' is [{', '.join(known.written)}], "
                hint = "give the shape or values of its symbols: " + wording(
                    f"shapes={{'{each.name}': (...)}} or symbols={{...}}",
                    f"--shape {each.name}=EXTENTS or --symbol NAME=VALUE",
                )
                message += f"but {error}"
                diagnostics.error("input/symbol", message, model.place, hint=hint)
                continue
        if dims is None:
            message = f"the model does not tell the shape of input '{each.name}'"
            hint = wording(
                f"shapes={{'{each.name}': (1, 3, 224, 224)}}", f"--shape {each.name}=1,3,224,224"
            )
            diagnostics.error("input/shape", message, model.place, hint=hint)
            continue
        try:
            listed = None
            if known is not None and known.values is not None:
                listed = known_tensor(known.values, dims, known.dtype)
                dims = listed.array.shape
            type_ = TensorType(dtype or DType.FLOAT32, tuple(dims))
            _add_input(each.name, type_, tensor.elem_type, evaluator, scope)
            if listed is not None:
                scope.values[each.name] = listed
        except OperatorError as wrong:
            diagnostics.error(wrong.rule, wrong.message, model.place, hint=wrong.hint)


def _add_input(
    name: str, type_: TensorType, elem_type: int, evaluator: GraphEvaluator, scope: Scope
) -> None:
    """Add one input; raises OperatorError for extents, rank or size that are not allowed."""
    check_input(name, type_, evaluator.model.limits)
    value = evaluator.make.graph.add_input(type_, evaluator.free_name(name))
    items = EmptyTensor(type_) if 0 in type_.dims else value
    scope.values[name] = _interpreted(evaluator.make, items, elem_type)


def _interpreted(make: OpBuilder, items: Operand, elem_type: int) -> Any:
    """The tensor of an input or a state, whose items are bytes if their type is narrow."""
    return from_bytes(make, items, elem_type) if is_narrow(elem_type) else items


def _stored(make: OpBuilder, value: Any) -> Any:
    """The value of an output or a state, as bytes if its type is narrow."""
    is_narrow_tensor = isinstance(value, NarrowTensor | StorageTensor)
    return bytes_of(make, value) if is_narrow_tensor else value


def _add_outputs(evaluated: EvaluatedModel) -> None:
    """Add the results as outputs of the graph; reports those that are missing or no tensors."""
    model, diagnostics = evaluated.model, evaluated.diagnostics
    make, kept = evaluated.evaluator.make, evaluated.kept
    for name, value in evaluated.results:
        if name in kept.outputs and value is not None:
            continue
        if value is None:
            message = f"nothing computes the output '{name}'"
            diagnostics.error("onnx/name", message, model.place)
        elif isinstance(value, TensorSequence | NoElement):
            message = f"output '{name}' is {value!r}"
            hint = "nnefc.onnx.InferenceSession and nnefc.onnx.backend return lists, or None"
            diagnostics.error("onnx/unsupported", message, model.place, hint=hint)
        elif value is not BROKEN:
            try:
                stored = operand(_stored(make, value))
                result: Value = make.value(stored, may_be_empty=True)
                add_output(make.graph, result, name)
            except OperatorError as wrong:
                message = f"output '{name}': {wrong.message}"
                diagnostics.error(wrong.rule, message, model.place, hint=wrong.hint)
    try:
        kept.store(make, {name: _stored(make, value) for name, value in evaluated.results})
    except OperatorError as wrong:
        diagnostics.error(wrong.rule, wrong.message, model.place, hint=wrong.hint)
    diagnostics.raise_errors()
    evaluated.evaluator.states.add_inputs(make.graph)
    evaluated.evaluator.states.add_outputs(make)
    add_counts(make)
