"""Tract documents as graph sources: one document, graphs for any input shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.formats.source_files import SourceFiles
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.symbolic_source import SymbolicSource
from nnefc.frontends.tract.build_graph import elaborate
from nnefc.frontends.tract.declared_operators import registries
from nnefc.frontends.tract.declared_symbols import signature_of
from nnefc.frontends.tract.model_context import SourceState
from nnefc.frontends.tract.operations_in_document import deviations, weight_labels
from nnefc.frontends.tract.render_template import texts_of
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits
from nnefc.syntax import ast

if TYPE_CHECKING:
    import numpy as np

    from nnefc.formats.tensor_file import StoredTensor

    Array = np.ndarray[Any, Any]


class TractSource(SymbolicSource):
    """A tract document with its weights and quantization; implements `GraphSource`."""

    def __init__(
        self,
        document: ast.Document,
        weights: Weights,
        quantization: ast.QuantizationFile | None,
        limits: Limits,
        given: Mapping[str, int] | None = None,
    ) -> None:
        names = [p.name for p in document.graph.parameters]
        super().__init__(signature_of(document), names, given)
        self._document = document
        self._quantization = quantization
        self._limits = limits
        self.weights = weights
        self.weights.texts = texts_of(document, quantization)
        self.name = document.graph.name
        self.outputs = output_names(r.name for r in document.graph.results)
        self._source_state = SourceState(entropy=int.from_bytes(os.urandom(8), "little"))

    def with_symbols(self, values: Mapping[str, int]) -> TractSource:
        """A source of the same document and weights, in which exactly these symbols are `given`."""
        source = TractSource(self._document, self.weights, self._quantization, self._limits, values)
        source._source_state = self._source_state
        return source

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """The axes along which the states of the graphs so far grow, by name."""
        return self._source_state.growing_axes

    def read_weights(self) -> None:
        """Read all weights whose labels are literals, which graphs then share; raises NnefError."""
        self.weights.read_all(weight_labels(self._document))

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
            "symbols": self.signature.all_symbols,
            "assertions": [stated.text for stated in self.signature.assertions],
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
            self.signature,
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
