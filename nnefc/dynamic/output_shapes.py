"""Types and shapes of the results of a document, in which extents may vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import DeclaredOutput, GraphSource, Shapes
    from nnefc.frontends.common.symbolic_graph import SymbolicGraph
    from nnefc.ir import Value


def output_specs(
    source: GraphSource, fixed: Mapping[str, Sequence[int]], known: Shapes | None = None
) -> tuple[TensorSpec, ...]:
    """The results of a document, with `fixed` shapes of some inputs; -1 for extents that vary.

    `known`: shapes of a call.  Raises NnefError if no sample shapes fit, and neither the document
    nor a call tells the types.
    """
    try:
        symbolic = _symbolic_graph(source, fixed)
    except NnefError:
        declared = _declared_outputs(source, known)
        if not declared:
            raise
        return tuple(
            TensorSpec(name, tuple(-1 if n == "?" else int(n) for n in extents), dtype.numpy)
            for name, dtype, extents, _ in declared
        )
    return tuple(
        TensorSpec(
            name,
            tuple(
                extent if text == str(extent) else -1
                for text, extent in zip(texts, value.type.dims, strict=True)
            ),
            value.type.dtype.numpy,
        )
        for name, value, texts in _outputs_of(source, symbolic)
    )


def output_shapes(
    source: GraphSource, fixed: Mapping[str, Sequence[int]]
) -> list[tuple[str, tuple[str, ...]]]:
    """The names and extents of the results, as expressions of the symbols; `?` for others."""
    try:
        symbolic = _symbolic_graph(source, fixed)
    except NnefError:
        declared = _declared_outputs(source, None)
        if not declared:
            raise
        return [(name, extents) for name, _, extents, _ in declared]
    return [
        (name, tuple("?" if text is None else text for text in texts))
        for name, _, texts in _outputs_of(source, symbolic)
    ]


def _outputs_of(
    source: GraphSource, symbolic: SymbolicGraph
) -> Iterator[tuple[str, Value, Sequence[str | None]]]:
    """The results by name with their extents as expressions; None for other extents.

    Where values of inputs decide shapes, all samples may have equal extents by coincidence: only
    those that the document declares are constant.
    """
    declared = {each.name: each.extents for each in source.declared_outputs()}
    for name, value in zip(source.outputs, symbolic.graph.outputs):
        texts: Sequence[str | None] = symbolic.extents(value)
        if source.value_inputs:
            known = declared.get(name, ())
            known = known if len(known) == len(texts) else ("?",) * len(texts)
            is_computed = value.op is not None
            texts = [
                text if text == each or (is_computed and text and not text.isdecimal()) else None
                for text, each in zip(texts, known, strict=True)
            ]
        yield name, value, texts


def _declared_outputs(source: GraphSource, known: Shapes | None) -> list[DeclaredOutput]:
    """The results of a model whose samples fail, as values of inputs decide its shapes.

    As the document declares them, or as a call with `known` shapes computes them.
    """
    from nnefc.frontends.common.graph_source import DeclaredOutput

    if not source.value_inputs:
        return []
    declared = source.declared_outputs()
    if declared or known is None:
        return declared
    graph = source.graph(known)
    return [
        DeclaredOutput(name, value.type.dtype, ("?",) * value.type.rank)
        for name, value in zip(source.outputs, graph.outputs)
    ]


def _symbolic_graph(source: GraphSource, fixed: Mapping[str, Sequence[int]]) -> SymbolicGraph:
    from nnefc.frontends.common.symbolic_graph import symbolic_graph
    from nnefc.support.errors import Diagnostics

    return symbolic_graph(source, fixed, Diagnostics())
