"""ONNX models as graph sources: one model, graphs for any input shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from nnefc.formats.source_files import SourceFiles
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_source import DeclaredOutput
from nnefc.frontends.common.graph_states import GraphStates, KeptInputs, KeptState
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.sample_shapes import VALUE_SAMPLES
from nnefc.frontends.common.signature import Signature
from nnefc.frontends.common.symbolic_graph import check_declared_extents, may_differ
from nnefc.frontends.common.symbolic_source import SymbolicSource
from nnefc.frontends.common.values import Array, OperatorError
from nnefc.frontends.onnx.build_graph import EvaluatedModel, evaluate_model
from nnefc.frontends.onnx.checks.certain_errors import CertainErrors, certain_errors
from nnefc.frontends.onnx.checks.declared_outputs import declared_output
from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.sequences import length_of
from nnefc.frontends.onnx.signature import (
    candidates,
    inputs_of,
    kept_states,
    narrow_inputs,
    value_inputs_of,
    with_value_inputs,
)
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.value_inputs import ValueInput, values_text
from nnefc.symbolic.sym_int_base import Untraceable

OUTLINE: Final = "model.onnx"
"""The path of the outline among the texts of `SourceFiles`."""


COMPLETE_GRAPHS: Final = 3
"""Graphs for sample values that show which further values must be known."""


class OnnxSource(SymbolicSource):
    """An ONNX model; implements `GraphSource`."""

    def __init__(
        self,
        model: OnnxModel,
        signature: Signature,
        given: Mapping[str, int] | None = None,
        kept: Mapping[str, KeptState] | None = None,
        names: VariableNames | None = None,
    ) -> None:
        """`kept`: the inputs that a session keeps; `names`: of the variables of all graphs."""
        self._kept = kept or {}
        others = (each for each in inputs_of(model) if each.name not in self._kept)
        super().__init__(signature, [each.name for each in others], given)
        self.model = model
        self.name = model.graph.name or "graph"
        outputs = {each.output for each in self._kept.values()}
        results = (each.name for each in model.graph.output if each.name not in outputs)
        self.outputs = output_names(results)
        self._names = names or VariableNames()
        self._is_possible = False
        """Whether a graph for some shapes has been built."""
        self._notes: Sequence[Diagnostic] = ()
        """The warnings and notes of the last graph for sample shapes."""
        self._declares_others = False
        """Whether its results have other extents than the declared numbers."""

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """The axes along which kept inputs grow, by name."""
        return {name: each.axis for name, each in self._kept.items() if each.axis is not None}

    def with_symbols(self, values: Mapping[str, int]) -> OnnxSource:
        """A source of the same model, in which exactly these symbols are `given`."""
        return OnnxSource(self.model, self.signature, values, self._kept, self._names)

    def with_value_inputs(self, inputs: Mapping[str, ValueInput]) -> OnnxSource:
        """A source of the same model, in which the values of these inputs decide shapes."""
        signature = with_value_inputs(self.signature, inputs)
        return OnnxSource(self.model, signature, self.given, self._kept, self._names)

    def with_states(self, pairs: Mapping[str, str]) -> OnnxSource:
        """A source of the same model, in which inputs are the results of the call before.

        `pairs`: names of outputs by those of inputs with declared ranks.  Raises NnefError
        `input/state` for pairs of other types.
        """
        kept = kept_states(self.model, self.signature.inputs, pairs)
        self._check_states(pairs, kept)
        others = tuple(each for each in self.signature.inputs if each.name not in kept)
        signature = Signature(others, self.signature.declared, self.signature.assertions)
        return OnnxSource(self.model, signature, self.given, kept, self._names)

    def _check_states(self, pairs: Mapping[str, str], kept: Mapping[str, KeptState]) -> None:
        declared = {each.name: each for each in self.declared_outputs()}
        for name, output in pairs.items():
            state, result = kept.get(name), declared.get(output)
            if state is None or state.input.values is not None:
                why = "its values decide shapes" if state else "it has no declared rank"
                raise NnefError.of("input/state", f"input '{name}' cannot be a state: {why}")
            state.check(result.dtype, len(result.extents)) if result else None

    def finding_value_inputs(self, shapes: Mapping[str, Sequence[int]]) -> OnnxSource:
        """The source in which the inputs that operators must know are `value_inputs`.

        `shapes`: of some inputs.  Graphs for sample shapes are built until one is complete; for
        several sample values, as some values need to know others, such as the steps of a slice.
        """
        source = self
        while needed := source._needed_inputs(shapes):
            source = source.with_value_inputs(value_inputs_of(source.signature, needed))
        return source

    def _needed_inputs(self, shapes: Mapping[str, Sequence[int]]) -> set[str]:
        """Inputs whose values operators must know, and that are no `value_inputs` yet."""
        possible = candidates(self.signature) - narrow_inputs(self.model)
        if not possible:
            return set()
        shapes = {name: shape for name, shape in shapes.items() if name not in possible}
        missing = COMPLETE_GRAPHS if self.value_inputs else 1
        try:
            for sample, _ in islice(self.sample_shapes(shapes), VALUE_SAMPLES):
                needed: set[str] = set()
                try:
                    diagnostics = Diagnostics(limit=self.model.limits.errors)
                    evaluated = self._evaluated(sample, diagnostics, needed=needed)
                except NnefError:
                    if needed & possible:
                        return needed & possible
                else:
                    with suppress(NnefError):
                        self._compare_declared(evaluated.graph())
                        self._is_possible = True
                    missing -= 1
                    if not missing:
                        break
        except NnefError:  # of shapes and symbols, which are checked later
            pass
        return set()

    def check_nodes(self, shapes: Mapping[str, Sequence[int]], diagnostics: Diagnostics) -> None:
        """Raise NnefError with the errors that all inputs have, of which some have `shapes`.

        Warns of results that are declared with other extents than those that no symbol decides.
        """
        if not self._is_possible and (errors := certain_errors(self, shapes, self._errors)):
            for note in self._notes:
                if note.severity == "note":
                    diagnostics.add(note)
            raise NnefError(errors)
        if self._declares_others:
            check_declared_extents(self, shapes, self.model.place, diagnostics)
            diagnostics.raise_errors()

    def _compare_declared(self, graph: Graph) -> None:
        """Note whether results have other extents in a graph for sample shapes than declared."""
        actual = dict(zip(graph.output_names, graph.outputs, strict=True))
        self._declares_others = any(
            may_differ(each, actual[each.name].type.dims)
            for each in self.declared_outputs()
            if each.name in actual
        )

    def _errors(
        self,
        shapes: Mapping[str, Sequence[int]],
        lifted: Mapping[str, int] | None,
        certain: CertainErrors | None,
    ) -> Sequence[Diagnostic]:
        """The errors of the graph for these shapes; see `graph`."""
        diagnostics = Diagnostics(limit=self.model.limits.errors)
        try:
            self._notes = diagnostics.warnings
            evaluated = self._evaluated(shapes, diagnostics, lifted=lifted, certain=certain)
            graph = evaluated.graph()
            if certain is None:
                self._compare_declared(graph)
        except NnefError as error:
            return error.errors
        except Untraceable:
            return diagnostics.errors
        return ()

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
        values = self.value_inputs
        return SourceFiles(file, texts, tensors, None, self.given, model.limits, "onnx", values)

    def declared_outputs(self) -> list[DeclaredOutput]:
        """The outputs of the model, if it declares all types and ranks; else an empty list."""
        outputs = (each for each in self.model.graph.output if each.name in self.outputs)
        declared = [declared_output(self.model, each) for each in outputs]
        return [each for each in declared if each is not None] if None not in declared else []

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
        try:
            stored = GraphStates(states or {}, capacity)
            kept = KeptInputs(self._kept, stored, in_place=in_place)
            graph = self._evaluated(shapes, diagnostics, stored, lifted, kept=kept).graph()
        except NnefError as error:
            raise self._with_values(error, shapes) from None
        for name, variable in graph.variables.items():
            if variable.data is not None and self.model.tensors.has_no_data(variable.data):
                graph.variables[name] = replace(variable, data=None)
        return graph

    def lengths_of_results(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """`sequences.length_of` of each result for input `shapes`; raises NnefError."""
        self.require_inputs(shapes)
        evaluated = self._evaluated(shapes, Diagnostics(limit=self.model.limits.errors))
        return {name: length_of(value) for name, value in evaluated.results}

    def _evaluated(
        self,
        shapes: Mapping[str, Sequence[int]],
        diagnostics: Diagnostics,
        states: GraphStates | None = None,
        lifted: Mapping[str, int] | None = None,
        needed: set[str] | None = None,
        kept: KeptInputs | None = None,
        certain: CertainErrors | None = None,
    ) -> EvaluatedModel:
        """The model, evaluated for these shapes; see `evaluate_model` and `graph`."""
        return evaluate_model(
            self.model,
            self.signature,
            shapes,
            self.given,
            lifted,
            self._names,
            states or GraphStates({}),
            diagnostics,
            needed,
            kept,
            certain,
        )

    def _with_values(self, error: NnefError, shapes: Mapping[str, Sequence[int]]) -> NnefError:
        """An error that also tells the values of the inputs that decide shapes."""
        ending = values_text(self.value_inputs, {**self.determined(), **shapes})
        if not ending:
            return error
        return NnefError([each._replace(message=each.message + ending) for each in error.errors])
