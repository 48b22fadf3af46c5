"""Submodels (`tract_core_submodel`): another model, evaluated into the outer graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nnefc.formats.container import Container
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import DatumType, OperatorError
from nnefc.frontends.tract.declared_operators import evaluation_context, report_unknown
from nnefc.frontends.tract.declared_symbols import signature_of
from nnefc.frontends.tract.evaluate import Evaluator
from nnefc.frontends.tract.evaluation_context import Scope
from nnefc.frontends.tract.model_context import ModelContext
from nnefc.frontends.tract.quantization import quantized_types, read_quantization
from nnefc.frontends.tract.render_template import rendered, texts_of
from nnefc.frontends.tract.weights import Weights
from nnefc.support.errors import Diagnostics
from nnefc.syntax import ast
from nnefc.syntax.parser import decode, parse

MAX_DEPTH: Final = 8
"""Nesting levels of submodels."""


class Submodel(ModelContext):
    """A model within another: its inputs are tensors of the outer one, which stores its states."""

    def __init__(
        self,
        outer: ModelContext,
        document: ast.Document,
        given: Mapping[str, Any],
        quantized: Mapping[str, DatumType],
        weights: Weights,
    ) -> None:
        states, limits, in_place = outer.states, outer.limits, outer.in_place
        super().__init__(outer.graph, document, {}, states, quantized, weights, limits, in_place)
        self.source_state = outer.source_state
        self._outer = outer
        self._given = given
        self.depth = outer.depth + 1

    def free_name(self, name: str) -> str:
        return self._outer.free_name(name)

    def external(self, name: str, datum: DatumType, shape: Any) -> Any:
        if name not in self._given:
            raise OperatorError("tract/submodel", f"input '{name}' is not given")
        return self._given[name]


def submodel(outer: ModelContext, make: OpBuilder, label: str, inputs: Sequence[Any]) -> Any:
    """The results of model `label`, in the container of `outer`, for `inputs`.

    Its operations are appended to the graph of `make`.  Raises OperatorError, or NnefError with all
    errors in its document.
    """
    if outer.container is None or outer.depth >= MAX_DEPTH:
        raise OperatorError("tract/submodel", f"there is no model '{label}'")
    container = outer.container.submodel(label)
    if container is None:
        hint = f"{outer.container.name} has neither {label}/graph.nnef nor {label}.nnef.tgz"
        raise OperatorError("tract/submodel", f"there is no model '{label}'", hint)
    with container:
        return _embedded(outer, make, label, container, inputs)


def _embedded(
    outer: ModelContext, make: OpBuilder, label: str, container: Container, given: Sequence[Any]
) -> Any:
    """The results of the model in `container` for the inputs `given`; raises like `submodel`."""
    limits = outer.limits
    diagnostics = Diagnostics(limit=limits.errors)
    file = container.graph_file
    text = decode(container.graph_text(), file, limits=limits, diagnostics=diagnostics)
    text, file = rendered(text, container, limits)
    document = parse(text, file, limits=limits, diagnostics=diagnostics, tract=True)
    names = [p.name for p in document.graph.parameters]
    if len(names) != len(given):
        raise OperatorError(
            "tract/submodel", f"'{label}' takes {len(names)} tensors, not {len(given)}"
        )
    quantization = read_quantization(container, limits, diagnostics)
    types = quantized_types(quantization, diagnostics)
    weights = outer.weights.within(container, label)
    weights.texts = texts_of(document, quantization)
    inputs = dict(zip(names, given, strict=True))
    model = Submodel(outer, document, inputs, types, weights)
    context = evaluation_context(
        document, signature_of(document), model, types, make.budget, diagnostics
    )
    evaluator = Evaluator(context, make.graph)
    scope = Scope()
    evaluator.run(document.graph.body, scope, names=True)
    report_unknown(context, document)
    diagnostics.raise_errors()
    results = tuple(scope.values[r.name] for r in document.graph.results)
    return results[0] if len(results) == 1 else results
