"""ONNX models as graph sources: one model, graphs for any input shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from nnefc.formats.source_files import SourceFiles
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.symbolic_source import SymbolicSource
from nnefc.frontends.common.values import Array, OperatorError
from nnefc.frontends.onnx.build_graph import evaluate_model
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.sequences import length_of
from nnefc.frontends.onnx.signature import inputs_of
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostics, NnefError

OUTLINE: Final = "model.onnx"
"""The path of the outline among the texts of `SourceFiles`."""


class OnnxSource(SymbolicSource):
    """An ONNX model; implements `GraphSource`."""

    def __init__(
        self, model: OnnxModel, signature: Signature, given: Mapping[str, int] | None = None
    ) -> None:
        names = [each.name for each in inputs_of(model)]
        super().__init__(signature, names, given)
        self.model = model
        self.name = model.graph.name or "graph"
        self.outputs = output_names(each.name for each in model.graph.output)
        self._names = VariableNames()

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """Empty: the only states are those of random number generators."""
        return {}

    def with_symbols(self, values: Mapping[str, int]) -> OnnxSource:
        """A source of the same model, in which exactly these symbols are `given`."""
        source = OnnxSource(self.model, self.signature, values)
        source._names = self._names
        return source

    def read_weights(self) -> None:
        """Map all tensors outside of the outline, which graphs then share; raises NnefError."""
        diagnostics = Diagnostics(limit=self.model.limits.errors)
        for proto in self.model.stored_tensors():
            what = f"tensor '{proto.name}'"
            try:
                self.model.tensors.constant(proto)
            except OperatorError as wrong:
                message = f"{what}: {wrong.message}"
                diagnostics.error(wrong.rule, message, self.model.place, hint=wrong.hint)
            except NnefError as error:
                for each in error.errors:
                    diagnostics.add(each._replace(message=f"{what}: {each.message}"))
        diagnostics.raise_errors()

    def arrays(self) -> Iterable[Array]:
        """The arrays of the tensors read so far, which all graphs share."""
        yield from self.model.arrays()
        yield from (each.array for each in self.model.tensors.stored().values())

    def files(self) -> SourceFiles:
        """The outline of the model, and its tensors that were read so far."""
        model = self.model
        texts = {OUTLINE: model.text}
        tensors = model.tensors.stored()
        file = model.place.file
        return SourceFiles(file, texts, tensors, None, self.given, model.limits, "onnx")

    def description(self) -> dict[str, Any]:
        """The producer, the versions of operators, and the symbols."""
        proto = self.model.proto
        return {
            "dialect": "onnx",
            "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
            "opsets": {domain or "ai.onnx": v for domain, v in self.model.opsets.items()},
            "symbols": self.signature.all_symbols,
        }

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]],
        diagnostics: Diagnostics | None = None,
        *,
        states: Mapping[str, Sequence[int]] | None = None,
        lifted: Mapping[str, int] | None = None,
        in_place: bool = True,
        capacity: int | None = None,
    ) -> Graph:
        """The graph for input `shapes` by name; raises NnefError with all errors.

        `states`: shapes of the stored states of random number generators; they follow the inputs
        of the model, and their new values its outputs.
        `lifted`: values of the symbols, which may be symbolic (`nnefc.symbolic.integers`).
        """
        diagnostics = diagnostics or Diagnostics(limit=self.model.limits.errors)
        self.require_inputs(shapes)
        stored = GraphStates(states or {})
        evaluated = evaluate_model(
            self.model, self.signature, shapes, self.given, lifted, self._names, stored, diagnostics
        )
        graph = evaluated.graph()
        for name, variable in graph.variables.items():
            if variable.data is not None and self.model.tensors.has_no_data(variable.data):
                graph.variables[name] = replace(variable, data=None)
        return graph

    def lengths_of_results(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """`sequences.length_of` of each result for input `shapes`; raises NnefError."""
        diagnostics = Diagnostics(limit=self.model.limits.errors)
        self.require_inputs(shapes)
        evaluated = evaluate_model(
            self.model,
            self.signature,
            shapes,
            self.given,
            None,
            VariableNames(),
            GraphStates({}),
            diagnostics,
        )
        return {name: length_of(value) for name, value in evaluated.results}
