"""Build the graph of a document: bind symbols, evaluate the body, connect inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.frontends.common import bind_symbols
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.extents import names_of
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.sample_shapes import sample_shapes
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.tract.declared_operators import evaluation_context, report_unknown
from nnefc.frontends.tract.evaluate import Evaluator
from nnefc.frontends.tract.evaluation_context import Scope
from nnefc.frontends.tract.model_context import ModelContext, SourceState
from nnefc.frontends.tract.quantization import quantized_types
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits, how_to_raise, room_for_recursion
from nnefc.support.wording import wording
from nnefc.syntax import ast


def elaborate(
    document: ast.Document,
    signature: Signature,
    *,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, int],
    states: Mapping[str, Sequence[int]],
    weights: Weights,
    quantization: ast.QuantizationFile | None,
    limits: Limits,
    diagnostics: Diagnostics,
    lifted: Mapping[str, int] | None = None,
    in_place: bool = True,
    capacity: int | None = None,
    source_state: SourceState | None = None,
) -> Graph:
    """The graph of a document for input `shapes` and shapes of `states`, both by name.

    `given`: values of symbols beside those that `shapes` determine.
    `lifted`: values of the other symbols, which may be symbolic (`nnefc.symbolic.integers`).
    `in_place`: states that grow do so in the memory of their inputs, whose extent is `capacity`.
    `source_state`: facts shared by all graphs of the document.
    Raises NnefError with all errors.
    """
    values: Mapping[str, int] = bind_symbols.bind(signature, shapes, given)
    if lifted is not None:
        values = {**given, **lifted}
        shapes = bind_symbols.evaluated_shapes(signature, shapes, values)
    graph = Graph(document.graph.name)
    types = quantized_types(quantization, diagnostics)
    stored = GraphStates(states, capacity)
    model = ModelContext(graph, document, shapes, stored, types, weights, limits, in_place)
    model.symbols, model.source_state = values, source_state or SourceState()
    budget = Budget(limits, len(document.source.text))
    context = evaluation_context(document, signature, model, types, budget, diagnostics)
    _require_symbols(signature, values, shapes, diagnostics)
    diagnostics.raise_errors()
    evaluator = Evaluator(context, graph)
    scope = Scope()
    try:
        with room_for_recursion():
            evaluator.run(document.graph.body, scope, names=True)
    except Exhausted as exhausted:
        place = exhausted.place
        hint = how_to_raise(exhausted.limit)
        diagnostics.error(
            f"limit/{exhausted.limit}", exhausted.message, place, hint=hint, chain=exhausted.chain
        )
    except RecursionError:
        place = document.source.place(document.graph.at)
        message = "expressions and invocations nest too deeply"
        diagnostics.error("limit/recursion", message, place)
    report_unknown(context, document)
    if not diagnostics.errors:
        for wrong in model.connect(document, scope, evaluator.make):
            place = document.source.place(document.graph.at)
            diagnostics.error(wrong.rule, wrong.message, place, hint=wrong.hint)
    diagnostics.raise_errors()
    return graph


def _require_symbols(
    signature: Signature,
    values: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    diagnostics: Diagnostics,
) -> None:
    """Report inputs whose shapes have unbound symbols, with example shapes."""
    try:
        possible, sample = next(sample_shapes(signature, values))
    except NnefError:
        possible, sample = {}, {}
    for each in signature.inputs:
        names = [n for n in dict.fromkeys(names_of(each.extents)) if n not in values]
        if names and each.name not in shapes:
            listed = " and ".join(f"'{name}'" for name in names)
            verb = "has no value" if len(names) == 1 else "have no values"
            extents = ",".join(each.written)
            hint = "give its shape in numbers"
            if shape := possible.get(each.name):
                typed = ",".join(map(str, shape))
                python = f"shapes={{'{each.name}': {shape}}}"
                hint += f", such as {wording(python, f'--shape {each.name}={typed}')}"
                options = " ".join(f"--symbol {name}={sample[name]}" for name in names)
                python = f"symbols={ {name: sample[name] for name in names} }"
                hint += f", or the symbols: {wording(python, options)}"
            diagnostics.error(
                "input/symbol",
                f"the shape of input '{each.name}' is [{extents}], but {listed} {verb}",
                each.place,
                hint=hint,
            )
