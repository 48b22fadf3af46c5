"""A document of the dialect that becomes a graph as often as it is asked to, for other shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.common import assumptions, symbols
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_source import SymbolicShape
from nnefc.frontends.common.values import datum_type
from nnefc.frontends.tract.context import registries
from nnefc.frontends.tract.document import elaborate
from nnefc.frontends.tract.invocations import labels, readings
from nnefc.frontends.tract.model import SourceState
from nnefc.frontends.tract.sample_shapes import sample_shapes
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import Graph, TensorType
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax import ast

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class TractSource:
    """A document of the dialect with its weights and quantization: a `GraphSource`."""

    def __init__(
        self,
        document: ast.Document,
        weights: Weights,
        quantization: ast.QuantizationFile | None,
        limits: Limits,
    ) -> None:
        self._document = document
        self._quantization = quantization
        self._limits = limits
        self.weights = weights
        self.name = document.graph.name
        self.inputs = [p.name for p in document.graph.parameters]
        self.outputs = output_names(r.name for r in document.graph.results)
        self.free = assumptions.free_symbols(document)
        self._common = SourceState(entropy=int.from_bytes(os.urandom(8), "little"))
        self._bound: tuple[Mapping[str, Sequence[int]], dict[str, int]] | None = None
        """Shapes of the inputs and values of symbols, of the last call."""

    def shapes(self, values: Mapping[str, int] | None = None) -> list[SymbolicShape]:
        """The shapes of the inputs as they are written, but for what `values` of symbols tell."""
        found: list[SymbolicShape] = []
        for each in assumptions.inputs(self._document):
            known = [_extent(extent, values or {}) for extent in each.extents]
            pairs = zip(each.written, known, strict=True)
            extents = tuple(text if extent < 0 else str(extent) for text, extent in pairs)
            found.append(SymbolicShape(each.name, extents))
        return found

    @property
    def growing(self) -> Mapping[str, int]:
        """The axes along which states grow, by name, of those that graphs have had so far."""
        return self._common.growing

    def types(self, values: Mapping[str, int] | None = None) -> dict[str, TensorType]:
        """Types of the inputs by name, with -1 for extents that `values` of symbols do not tell."""
        found = {
            each.name: TensorType(
                datum_type(each.datum_type).dtype,
                tuple(_extent(extent, values or {}) for extent in each.extents),
            )
            for each in assumptions.inputs(self._document)
        }
        return {name: found[name] for name in self.inputs if name in found}

    def unbound(self, shapes: Mapping[str, Sequence[int]]) -> list[str]:
        """Symbols that have no value with these shapes of inputs; raises NnefError."""
        values = symbols.bind(self._document, shapes)
        return [name for name in self.free if name not in values]

    def require_inputs(self, names: Iterable[str]) -> None:
        """Raise NnefError for a name that no input has."""
        if wrong := [name for name in names if name not in self.inputs]:
            listed = ", ".join(self.inputs)
            message = f"the graph has no input '{wrong[0]}'; it has {listed}"
            known = ", ".join(map(str, self.shapes()))
            hint = f"'{wrong[0]}' is a symbol: {known}" if wrong[0] in self.free else ""
            raise NnefError.of("input/shape", message, hint=hint)

    def read_weights(self) -> None:
        """Read the weights that the document names; raises NnefError."""
        self.weights.read_all(labels(self._document))

    def sample_shapes(
        self, shapes: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
        """Possible shapes of all inputs, where some have `shapes`, with the values of the symbols.

        Yields at least one pair, or raises NnefError.
        """
        values = symbols.bind(self._document, shapes)
        given = {name: tuple(shape) for name, shape in shapes.items()}
        for sample, sample_values in sample_shapes(self._document, values):
            yield {**sample, **given}, sample_values

    def symbol_values(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Values of the symbols for shapes of inputs; raises NnefError."""
        # in a loop that decodes they are the same again and again
        if self._bound is None or self._bound[0] != shapes:
            self._bound = dict(shapes), symbols.bind(self._document, shapes)
        return dict(self._bound[1])

    def arrays(self) -> Iterable[Array]:
        """The weights, which all graphs share."""
        return self.weights.arrays()

    def description(self) -> dict[str, Any]:
        """Registries, symbols, assertions and deviating operations of the document."""
        return {
            "dialect": "tract",
            "registries": [name for name, _ in registries(self._document)],
            "symbols": assumptions.all_symbols(self._document),
            "assertions": [text for _, text in assumptions.assertions(self._document)],
            "readings": readings(self._document),
        }

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]],
        diagnostics: Diagnostics | None = None,
        *,
        states: Mapping[str, Sequence[int]] | None = None,
        lifted: Mapping[str, int] | None = None,
        in_place: bool = True,
    ) -> Graph:
        """The graph for inputs of these `shapes`, by name; raises NnefError with all errors.

        `states`: shapes of what operators have kept, by their names; those that are not there have
        kept nothing.  They are inputs of the graph behind those of the document, and their new
        values are outputs behind those of the document, in the order of the operators. `in_place`:
        states that grow have room instead, where what comes is put by the graph. `lifted`: numbers
        to compute with in the place of the values of symbols (`nnefc.symbolic.integers`).
        """
        found = diagnostics or Diagnostics(limit=self._limits.errors)
        self.require_inputs(shapes)
        return elaborate(
            self._document,
            shapes=shapes,
            states=states or {},
            weights=self.weights,
            quantization=self._quantization,
            limits=self._limits,
            diagnostics=found,
            lifted=lifted,
            in_place=in_place,
            common=self._common,
        )


def _extent(expression: ast.Expression, values: Mapping[str, int]) -> int:
    try:
        return assumptions.extent_of(expression, values)
    except assumptions.NoValue:
        return -1
