"""Tract documents as graph sources: one document, graphs for any input shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.formats.source_files import SourceFiles
from nnefc.frontends.common import bind_symbols, declared_symbols
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_source import SymbolicShape
from nnefc.frontends.common.values import datum_type
from nnefc.frontends.tract.build_graph import elaborate
from nnefc.frontends.tract.declared_operators import registries
from nnefc.frontends.tract.model_context import SourceState
from nnefc.frontends.tract.operations_in_document import deviations, weight_labels
from nnefc.frontends.tract.render_template import texts_of
from nnefc.frontends.tract.sample_shapes import sample_shapes
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import Graph, TensorType
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax import ast

if TYPE_CHECKING:
    import numpy as np

    from nnefc.formats.tensor_file import StoredTensor
    from nnefc.symbolic.linear_shapes import LinearShapes

    Array = np.ndarray[Any, Any]


class TractSource:
    """A tract document with its weights and quantization; implements `GraphSource`."""

    def __init__(
        self,
        document: ast.Document,
        weights: Weights,
        quantization: ast.QuantizationFile | None,
        limits: Limits,
        given: Mapping[str, int] | None = None,
    ) -> None:
        self._document = document
        self._quantization = quantization
        self._limits = limits
        self.weights = weights
        self.weights.texts = texts_of(document, quantization)
        self.name = document.graph.name
        self.inputs = [p.name for p in document.graph.parameters]
        self.outputs = output_names(r.name for r in document.graph.results)
        self.given: Mapping[str, int] = dict(given or {})
        self.free = [n for n in declared_symbols.free_symbols(document) if n not in self.given]
        self._source_state = SourceState(entropy=int.from_bytes(os.urandom(8), "little"))
        self._bound: tuple[Mapping[str, Sequence[int]], dict[str, int]] | None = None
        """Input shapes of the last call, and the symbols bound by them."""

    def with_symbols(self, values: Mapping[str, int]) -> TractSource:
        """A source of the same document and weights, in which exactly these symbols are `given`."""
        source = TractSource(self._document, self.weights, self._quantization, self._limits, values)
        source._source_state = self._source_state
        return source

    def shapes(self, values: Mapping[str, int] | None = None) -> list[SymbolicShape]:
        """The declared input shapes, in which extents that `values` determine are numbers."""
        values = {**self.given, **(values or {})}
        declared: list[SymbolicShape] = []
        for each in declared_symbols.inputs(self._document):
            known = [_extent(extent, values) for extent in each.extents]
            pairs = zip(each.written, known, strict=True)
            extents = tuple(text if extent < 0 else str(extent) for text, extent in pairs)
            declared.append(SymbolicShape(each.name, extents))
        return declared

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """The axes along which the states of the graphs so far grow, by name."""
        return self._source_state.growing_axes

    def types(self, values: Mapping[str, int] | None = None) -> dict[str, TensorType]:
        """Types of the inputs by name; extents that `values` do not determine are -1."""
        values = {**self.given, **(values or {})}
        types = {
            each.name: TensorType(
                datum_type(each.datum_type).dtype,
                tuple(_extent(extent, values) for extent in each.extents),
            )
            for each in declared_symbols.inputs(self._document)
        }
        return {name: types[name] for name in self.inputs if name in types}

    def linear_shapes(self) -> LinearShapes | None:
        """The shapes of the inputs and the assertions as data; None if some are not linear."""
        return bind_symbols.linear_shapes(self._document, self.given)

    def unbound(self, shapes: Mapping[str, Sequence[int]]) -> list[str]:
        """Free symbols that these input shapes do not determine; raises NnefError."""
        values = bind_symbols.bind(self._document, shapes, self.given)
        return [name for name in self.free if name not in values]

    def check(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Raise NnefError with all errors of `shapes` and of the `given` symbols."""
        problems = [*self._unknown_inputs(shapes), *self._unknown_symbols()]
        known = {name: shape for name, shape in shapes.items() if name in self.inputs}
        try:
            values = bind_symbols.bind(self._document, known, self.given)
        except NnefError as error:
            problems += error.errors
        else:
            problems += bind_symbols.impossible_extents(self._document, known, values)
        if problems:
            raise NnefError(problems)

    def require_inputs(self, names: Iterable[str]) -> None:
        """Raise NnefError for names that are not inputs."""
        if problems := list(self._unknown_inputs(names)):
            raise NnefError(problems)

    def _unknown_inputs(self, names: Iterable[str]) -> Iterator[Diagnostic]:
        for name in names:
            if name not in self.inputs:
                listed = ", ".join(self.inputs)
                message = f"the graph has no input '{name}'; it has {listed}"
                hint = suggestion(name, self.inputs)
                if name in declared_symbols.all_symbols(self._document):
                    declared = declared_symbols.inputs(self._document)
                    written = (f"{each.name}: [{','.join(each.written)}]" for each in declared)
                    hint = (
                        f"'{name}' is a symbol: {', '.join(written)}; --symbol {name}=VALUE or "
                        f"symbols={{'{name}': VALUE}} gives its value"
                    )
                yield Diagnostic("input/shape", message, hint=hint)

    def _unknown_symbols(self) -> Iterator[Diagnostic]:
        known = declared_symbols.all_symbols(self._document)
        for name, value in self.given.items():
            if name not in known:
                listed = f"; it has {', '.join(known)}" if known else ": no extent is a symbol"
                message = f"symbol {name} = {value}: the document has no symbol '{name}'{listed}"
                hint = suggestion(name, known)
                if name in self.inputs:
                    hint = f"'{name}' is an input: --shape or shapes= gives its shape"
                yield Diagnostic("tract/symbol", message, hint=hint)

    def read_weights(self) -> None:
        """Read all weights whose labels are literals, which graphs then share; raises NnefError."""
        self.weights.read_all(weight_labels(self._document))

    def sample_shapes(
        self, shapes: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
        """Sample shapes of all inputs, given the `shapes` of some, with the values of the symbols.

        Yields at least one pair, or raises NnefError.
        """
        values = bind_symbols.bind(self._document, shapes, self.given)
        known = {name: tuple(shape) for name, shape in shapes.items()}
        first_error: NnefError | None = None
        is_possible = False
        for sample, sample_values in sample_shapes(self._document, values):
            chosen = {**sample, **known}
            try:  # the given extent of P + S determines P, once S has a sample value
                bound = bind_symbols.bind(self._document, chosen, self.given)
            except NnefError as error:
                first_error = first_error or error
                continue
            is_possible = True
            yield chosen, {**sample_values, **bound}
        if first_error is not None and not is_possible:
            raise first_error

    def symbol_values(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Values of the symbols for input shapes, without the given ones; raises NnefError."""
        # consecutive calls of a decoding loop have equal shapes
        if self._bound is None or self._bound[0] != shapes:
            values = bind_symbols.bind(self._document, shapes, self.given)
            free = {name: value for name, value in values.items() if name not in self.given}
            self._bound = dict(shapes), free
        return dict(self._bound[1])

    def arrays(self) -> Iterable[Array]:
        """The arrays of the weights read so far, which all graphs share."""
        return self.weights.arrays()

    def files(self) -> SourceFiles:
        """The texts and the tensors that graphs have read so far."""
        texts: dict[str, bytes] = {}
        tensors: dict[str, StoredTensor] = {}
        self.weights.add_files(texts, tensors)
        file = self._document.source.file
        seed = self.weights.random_weights
        return SourceFiles(file, texts, tensors, seed, self.given, self._limits)

    def description(self) -> dict[str, Any]:
        """The document's registries, symbols, assertions and deviations from NNEF 1.0.2."""
        return {
            "dialect": "tract",
            "registries": [name for name, _ in registries(self._document)],
            "symbols": declared_symbols.all_symbols(self._document),
            "assertions": [text for _, text in declared_symbols.assertions(self._document)],
            "deviations": deviations(self._document),
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

        `states`: shapes of the stored states by name; a state that is missing is empty.  States
        follow the document's inputs as inputs, and their new values its results as outputs, in the
        order of the operators.  `in_place`: the input of a growing state has room instead, to which
        the graph appends; `capacity`: the extent of its memory.  `lifted`: values of the symbols,
        which may be symbolic (`nnefc.symbolic.integers`).
        """
        diagnostics = diagnostics or Diagnostics(limit=self._limits.errors)
        self.require_inputs(shapes)
        return elaborate(
            self._document,
            shapes=shapes,
            given=self.given,
            states=states or {},
            weights=self.weights,
            quantization=self._quantization,
            limits=self._limits,
            diagnostics=diagnostics,
            lifted=lifted,
            in_place=in_place,
            capacity=capacity,
            source_state=self._source_state,
        )


def _extent(expression: ast.Expression, values: Mapping[str, int]) -> int:
    """The value of an extent; -1 if `values` do not determine it."""
    try:
        return declared_symbols.extent_of(expression, values)
    except declared_symbols.NoValue:
        return -1
