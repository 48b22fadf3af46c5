"""Build the graph of a model: bind symbols, evaluate the nodes, connect inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.frontends.common.bind_symbols import bind, evaluated_shapes
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.extents import NoValue, extent_of
from nnefc.frontends.common.graph_outputs import add_counts, add_output
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.operand_checks import check_input
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.values import EmptyTensor, OperatorError, operand
from nnefc.frontends.onnx.evaluate import GraphEvaluator
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.node import BROKEN, Scope
from nnefc.frontends.onnx.sequences import NoElement, TensorSequence
from nnefc.frontends.onnx.signature import inputs_of, tensor_type_of
from nnefc.frontends.onnx.tensors import dtype_of
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import how_to_raise, room_for_recursion
from nnefc.support.wording import wording


def build_graph(
    model: OnnxModel,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, int],
    lifted: Mapping[str, int] | None,
    names: VariableNames,
    states: GraphStates,
    diagnostics: Diagnostics,
) -> Graph:
    """The graph of a model for input `shapes` by name; raises NnefError with all errors.

    Args:
        model: The model.
        signature: Of the model's inputs.
        shapes: Shapes of inputs.
        given: Values of symbols beside those that `shapes` determine.
        lifted: Values of the other symbols, which may be symbolic (`nnefc.symbolic.integers`).
        names: The names of variables, shared by all graphs of the model.
        states: The states of random number generators.
        diagnostics: Receives warnings and errors.
    """
    values: Mapping[str, int] = bind(signature, shapes, given)
    if lifted is not None:
        values = {**given, **lifted}
        shapes = evaluated_shapes(signature, shapes, values)
    graph = Graph(model.graph.name or "graph")
    budget = Budget(model.limits, len(model.text))
    evaluator = GraphEvaluator(model, graph, names, budget, diagnostics, states)
    scope = Scope(model.opsets)
    _add_inputs(model, signature, shapes, values, evaluator, scope, diagnostics)
    diagnostics.raise_errors()
    try:
        with room_for_recursion():
            evaluator.run(model.graph, scope)
    except Exhausted as exhausted:
        rule, hint = f"limit/{exhausted.limit}", how_to_raise(exhausted.limit)
        diagnostics.error(rule, exhausted.message, exhausted.place, hint=hint)
    except RecursionError:
        diagnostics.error("limit/recursion", "functions nest too deeply", model.place)
    diagnostics.raise_errors()
    states.add_inputs(graph)
    _add_outputs(model, evaluator, scope, diagnostics)
    diagnostics.raise_errors()
    return graph


def _add_inputs(
    model: OnnxModel,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, int],
    evaluator: GraphEvaluator,
    scope: Scope,
    diagnostics: Diagnostics,
) -> None:
    """Add the inputs to the graph and to the scope; reports those without a shape."""
    declared = {each.name: each for each in signature.inputs}
    for each in inputs_of(model):
        dims = shapes.get(each.name)
        known = declared.get(each.name)
        tensor = tensor_type_of(each)
        assert tensor is not None
        dtype = known.dtype if known else dtype_of(tensor.elem_type)
        if dims is None and known is not None:
            try:
                dims = [extent_of(extent, values) for extent in known.extents]
            except NoValue as error:
                message = f"the shape of input '{each.name}' is [{', '.join(known.written)}], "
                options = wording("shapes= or symbols=", "--shape or --symbol")
                hint = f"give shapes or values of symbols: {options}"
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
            _add_input(each.name, dtype or DType.FLOAT32, tuple(dims), evaluator, scope)
        except OperatorError as wrong:
            diagnostics.error(wrong.rule, wrong.message, model.place, hint=wrong.hint)


def _add_input(
    name: str, dtype: DType, dims: tuple[int, ...], evaluator: GraphEvaluator, scope: Scope
) -> None:
    """Add one input; raises OperatorError for extents, rank or size that are not allowed."""
    if name in scope.values:
        raise OperatorError("onnx/name", f"input '{name}' is declared twice")
    type_ = TensorType(dtype, dims)
    check_input(name, type_, evaluator.model.limits)
    value = evaluator.make.graph.add_input(type_, evaluator.free_name(name))
    scope.values[name] = EmptyTensor(type_) if 0 in dims else value


def _add_outputs(
    model: OnnxModel, evaluator: GraphEvaluator, scope: Scope, diagnostics: Diagnostics
) -> None:
    """Add the results as outputs of the graph; reports those that are missing or no tensors."""
    make = evaluator.make
    for output in model.graph.output:
        value: Any = scope.find(output.name)
        if value is None:
            message = f"nothing computes the output '{output.name}'"
            diagnostics.error("onnx/name", message, model.place)
        elif isinstance(value, TensorSequence | NoElement):
            message = f"output '{output.name}' is {value!r}"
            hint = (
                "outputs are tensors; ConcatFromSequence and SequenceAt make tensors of sequences"
            )
            diagnostics.error("onnx/unsupported", message, model.place, hint=hint)
        elif value is not BROKEN:
            try:
                result: Value = make.value(operand(value), may_be_empty=True)
                add_output(make.graph, result, output.name)
            except OperatorError as wrong:
                message = f"output '{output.name}': {wrong.message}"
                diagnostics.error(wrong.rule, message, model.place, hint=wrong.hint)
    evaluator.states.add_outputs(make)
    add_counts(make)
