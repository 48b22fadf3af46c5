"""Compare the extents of results with those that a document with symbols declares."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.frontends.common.graph_source import DeclaredOutput, GraphSource, Shapes
from nnefc.frontends.common.symbolic_graph import symbolic_graph
from nnefc.support.errors import Diagnostics, NnefError, Place


def may_differ(declared: DeclaredOutput, extents: Sequence[int]) -> bool:
    """Whether the extents of a result for sample shapes are others than the declared numbers."""
    pairs = zip(declared.extents, map(str, extents))
    return len(declared.extents) != len(extents) or any(a not in (b, "?") for a, b in pairs)


def check_declared_extents(
    source: GraphSource, shapes: Shapes, place: Place, diagnostics: Diagnostics
) -> None:
    """Report results that are declared with other extents than those that no symbol decides.

    `shapes`: of some inputs.
    """
    declared = {each.name: each for each in source.declared_outputs()}
    if not declared:
        return
    try:
        symbolic = symbolic_graph(source, shapes, Diagnostics())
    except NnefError:  # of sample values, which calls report
        return
    for name, value in zip(symbolic.graph.output_names, symbolic.graph.outputs, strict=True):
        output = declared.get(name)
        if output and (wrong := output.mismatch(symbolic.extents(value), place)):
            diagnostics.add(wrong)
