"""Convert a graph to a document in tract's dialect."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from nnefc.emit.convert.complete_windows import complete_windows
from nnefc.emit.convert.extents import Extents
from nnefc.emit.convert.standard_operations import without_dead_code
from nnefc.emit.convert.suppression import suppressions_as_loops
from nnefc.emit.convert.tract.blocks import BLOCKS
from nnefc.emit.convert.tract.operations import HANDLERS, is_written
from nnefc.emit.convert.tract.scan import hoist_constants
from nnefc.emit.convert.tract.writer import (
    REFUSED,
    TractWriter,
    Unsupported,
    external,
    quoted,
)
from nnefc.emit.convert.weighted_gather import weighted_gathers_as_loops
from nnefc.ir import Graph
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.support.errors import NnefError
from nnefc.syntax.lexer import KEYWORDS

MULTIPLIED: Final = ("q4_0",)
"""Formats of blocks that the products of tract 0.23 read."""


@dataclass(frozen=True, slots=True)
class TractDocument:
    """A document in tract's dialect, the data of its variables, and what its graph computes."""

    graph: Graph
    text: str
    tensors: dict[str, Any]
    inputs: list[str]
    results: list[str]
    blocks: dict[str, str]
    """The formats of the tensors that are blocks, by label."""


def tract_document(
    graph: Graph, extents: Extents | None = None, blocks: Collection[str] = MULTIPLIED
) -> TractDocument:
    """The document of a graph, whose extents may depend on symbols.

    Results whose extents only a run tells are cut to their items in the document.  `blocks`: the
    formats of weights that stay in blocks.  Raises NnefError `flatten/...` with everything that
    cannot be said.
    """
    require_no_states(graph)
    copy = without_dead_code(graph, blocks=blocks)
    suppressions_as_loops(copy)
    weighted_gathers_as_loops(copy)
    ExpandCompounds(only=lambda op: op.name not in BLOCKS and not is_written(op)).run(copy)
    complete_windows(copy)
    hoist_constants(copy)
    writer = TractWriter(copy, extents or Extents(), {**HANDLERS, **BLOCKS})
    inputs = _inputs(writer, copy)
    writer.body(copy)
    results = _results(writer, copy)
    writer.require_all()
    text = _text(writer, copy, inputs, results)
    return TractDocument(copy, text, writer.tensors, inputs, results, writer.blocks)


def require_no_states(graph: Graph) -> None:
    """Raise NnefError `flatten/state` for states and for variables that the graph updates."""
    updated = [graph.variables[key].label for key in graph.updated_labels]
    names = [*(state.name for state in graph.states), *updated]
    if names:
        listed = ", ".join(f"'{name}'" for name in names)
        message = f"the dialect of tract has no form for states that a call replaces: {listed}"
        hint = "make them inputs and results; NNEF 1.0.2 updates variables, with known shapes"
        raise NnefError.of("flatten/state", message, hint=hint)


def _inputs(writer: TractWriter, graph: Graph) -> list[str]:
    scope = writer.scope
    for value in graph.inputs:
        scope.names[value] = scope.fresh(value.name)
    cut = {count.of for count in graph.counts}
    counts = {count.output for count in graph.counts}
    for i, (name, value) in enumerate(zip(graph.output_names, graph.outputs)):
        if i in cut:
            scope.taken.add(name)  # the name is that of the items that count
        elif i not in counts and value not in scope.names:
            scope.names[value] = scope.fresh(name)
    for value in graph.inputs:
        try:
            writer.define([value], external(writer, value.type))
        except Unsupported as reason:
            writer.refused.add(REFUSED, str(reason))
    return [scope.names[value] for value in graph.inputs]


def _results(writer: TractWriter, graph: Graph) -> list[str]:
    """The names of the results; repeated ones and inputs are copied, counted ones are cut."""
    names: list[str] = []
    counts = {count.output for count in graph.counts}
    for i, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        if i in counts:
            continue
        text = writer.operand(value)
        cuts = [count for count in graph.counts if count.of == i]
        for count in cuts:
            text = _cut(writer, text, value.type.dims[count.axis], count.axis, graph, count.output)
        written = writer.scope.names[value]
        if cuts:
            writer.scope.taken.discard(name)
        if cuts or written in names or (value.op is None and written != name):
            written = writer.scope.fresh(name)
            writer.scope.lines.append(f"{quoted(written)} = copy({text});")
        names.append(written)
    return names


def _cut(writer: TractWriter, text: str, extent: Any, axis: int, graph: Graph, count: int) -> str:
    """The first items of a tensor along an axis, as many as output `count` tells.

    They are gathered at the positions of flags, whose number only a run tells.
    """
    number = writer.operand(graph.outputs[count])
    flags = f"lt(tract_core_range(0, {writer.extent(extent)}, 1), {number})"
    writer.registries.add("tract_onnx")
    where = writer.assign(f"squeeze(tract_onnx_non_zero({flags}), axes = [0])", "valid")
    return f"tract_core_gather({text}, {where}, axis = {axis})"


def _text(writer: TractWriter, graph: Graph, inputs: list[str], results: list[str]) -> str:
    lines = ["version 1.0;", ""]
    lines += [f"extension tract_registry {name};" for name in sorted(writer.registries)]
    if writer.extents.symbols:
        lines += [f"extension tract_symbol {name};" for name in writer.extents.symbols]
    lines += ["", *writer.fragments]
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in graph.name)
    if not (name[:1].isalpha() or name[:1] == "_") or name in KEYWORDS:
        name = f"graph_{name}"
    ends = [", ".join(map(quoted, names)) for names in (inputs, results)]
    lines += [f"graph {name}( {ends[0]} ) -> ( {ends[1]} )", "{"]
    lines += [f"    {line}" for line in writer.scope.lines]
    return "\n".join([*lines, "}", ""])
