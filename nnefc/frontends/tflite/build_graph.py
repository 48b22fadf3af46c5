"""Build the graph of a model: evaluate the operators, connect inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.formats.tflite.model import Model
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.graph_outputs import add_counts, add_output
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.operand_checks import check_input
from nnefc.frontends.common.values import EmptyTensor, OperatorError, operand
from nnefc.frontends.tflite.evaluate import BROKEN, Build, SubgraphEvaluator
from nnefc.frontends.tflite.memory import Memory
from nnefc.frontends.tflite.subgraph_calls import reachable, resource_uses
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import Graph, TensorType
from nnefc.support.errors import Diagnostics, Place
from nnefc.support.limits import Limits, how_to_raise


def build_graph(
    model: Model,
    inputs: Sequence[str],
    outputs: Sequence[str],
    shapes: Mapping[str, Sequence[int]],
    limits: Limits,
    names: VariableNames,
    states: GraphStates,
    diagnostics: Diagnostics,
    *,
    in_reals: bool = False,
    entropy: int = 0,
) -> Graph:
    """The graph of the main subgraph; raises NnefError with all errors.

    `inputs`, `outputs`: the names of inputs and results in order.  `shapes`: of inputs, where they
    are others than those of the file.  `in_reals`: operators on codes are computed in reals.
    `entropy`: the seed of random numbers without one.
    """
    main = model.subgraphs[0]
    graph = Graph(main.name or "graph")
    count = sum(len(model.subgraphs[i].operators) for i in reachable(model))
    build = Build(model, graph, names, Budget(limits, 16 * count), in_reals, entropy)
    memory = Memory(states, resource_uses(model))
    evaluator = SubgraphEvaluator(build, main, graph, diagnostics, memory)
    for name, index in zip(inputs, main.inputs, strict=True):
        tensor = main.tensors[index]
        try:
            type_ = TensorType(dtype_of(tensor), tuple(shapes.get(name, tensor.shape)))
            check_input(name, type_, limits)
            value = graph.add_input(type_, evaluator.free_name(name))
            evaluator.values[index] = EmptyTensor(type_) if 0 in type_.dims else value
        except OperatorError as wrong:
            evaluator.report(wrong, f"input '{name}'")
            evaluator.values[index] = BROKEN
    try:
        evaluator.run()
        memory.store()
    except Exhausted as exhausted:
        rule, hint = f"limit/{exhausted.limit}", how_to_raise(exhausted.limit)
        diagnostics.error(rule, exhausted.message, exhausted.place or Place(model.file), hint=hint)
    diagnostics.raise_errors()
    _add_outputs(evaluator, outputs)
    diagnostics.raise_errors()
    states.add_inputs(graph)
    states.add_outputs(evaluator.make)
    add_counts(evaluator.make)
    return graph


def _add_outputs(evaluator: SubgraphEvaluator, outputs: Sequence[str]) -> None:
    """Add the results as outputs of the graph; reports those that are no tensors."""
    make, main = evaluator.make, evaluator.subgraph
    for name, index in zip(outputs, main.outputs, strict=True):
        try:
            value = operand(evaluator.value(main.tensors[index]))
            add_output(make.graph, make.value(value, may_be_empty=True), name)
        except OperatorError as wrong:
            evaluator.report(wrong, f"output '{name}'")
