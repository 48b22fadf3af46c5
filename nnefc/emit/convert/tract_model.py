"""Choose between NNEF 1.0.2 and tract's dialect for a document, and make it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from nnefc.emit.convert.converted import Converted, ends_of
from nnefc.emit.convert.extents import Extents, require_values, symbolic_form
from nnefc.emit.convert.nnef_model import NnefModel, nnef_model, operation_counts, require_inputs
from nnefc.emit.convert.states import states_as_variables
from nnefc.emit.convert.tract.document import MULTIPLIED, TractDocument, tract_document
from nnefc.formats.tensor_writer import Encoding
from nnefc.frontends.common.graph_source import GraphSource, Shapes
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostics, NnefError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

To = Literal["auto", "nnef", "tract"]
NAME: Final = "NNEF in the dialect of tract"


def document_of(
    model: Graph | GraphSource,
    shapes: Shapes,
    to: To = "auto",
    diagnostics: Diagnostics | None = None,
) -> NnefModel:
    """The document of a model: NNEF 1.0.2 if that can say it, otherwise tract's dialect.

    Args:
        model: A graph, or a source whose extents are symbols where `shapes` leave them open.
        shapes: Shapes of inputs by name.
        to: "nnef" and "tract" choose one of both.
        diagnostics: Receives the warnings of a source.

    Raises NnefError `flatten/...` with everything that the document cannot say, of both languages
    if neither can.
    """
    if isinstance(model, Graph):
        graph, extents = model, Extents()
    else:
        require_values(model, shapes)
        graph, extents = _form(model, shapes, diagnostics or Diagnostics())
    return document_for(graph, extents, to)


def _form(source: GraphSource, shapes: Shapes, diagnostics: Diagnostics) -> tuple[Graph, Extents]:
    """The graph of a source; its states are variables if all shapes are known."""
    first = source.first_states
    if not first or source.unbound(shapes):
        return symbolic_form(source, shapes, diagnostics)
    states = {name: array.shape for name, array in first.items()}
    graph = source.graph(shapes, diagnostics, states=states)
    states_as_variables(graph, first)
    return graph, Extents()


def document_for(graph: Graph, extents: Extents, to: To = "auto") -> NnefModel:
    """The document of a graph, whose extents may be symbolic, as `document_of`."""
    require_inputs(graph)
    if to == "nnef":
        if extents.symbols:
            message = f"NNEF 1.0.2 has no symbols, and extents are {', '.join(extents.symbols)}"
            hint = 'give the extents values, or write the dialect of tract: to="tract"'
            raise NnefError.of("flatten/symbol", message, hint=hint)
        return nnef_model(graph)
    if to == "tract":
        return tract_model(graph, extents, ())
    if extents.symbols:
        return tract_model(graph, extents, [f"symbols: {', '.join(extents.symbols)}"])
    try:
        return nnef_model(graph)
    except NnefError as error:
        if not all(each.rule.partition("/")[0] == "flatten" for each in error.errors):
            raise
        refused = error.errors
    try:
        return tract_model(graph, extents, [each.message for each in refused])
    except NnefError as error:
        raise NnefError([*refused, *error.errors]) from None


def tract_model(
    graph: Graph,
    extents: Extents,
    because: Sequence[str],
    blocks: Collection[str] = MULTIPLIED,
) -> NnefModel:
    """The document of a graph in tract's dialect; raises NnefError `flatten/...`.

    `blocks`: the formats of weights that stay in blocks.
    """
    document = tract_document(graph, extents, blocks)
    inputs, results = ends_of(graph, document.inputs, document.results, extents)
    converted = Converted(
        dialect=NAME,
        operations=operation_counts(document.graph),
        inputs=inputs,
        results=results,
        weight_bytes=sum(array.nbytes for array in document.tensors.values()),
        because=because,
    )
    return NnefModel(converted, document.text, document.tensors, _encodings(document))


def _encodings(document: TractDocument) -> Mapping[str, Encoding]:
    """tract reads code 1 as unsigned integers, so signed ones have code 4 of later versions.

    Blocks have formats of tract.
    """
    integers = {
        label: Encoding(encoding="int")
        for label, array in document.tensors.items()
        if array.dtype.kind == "i"
    }
    blocks = {label: Encoding(blocks=name) for label, name in document.blocks.items()}
    return {**integers, **blocks}
