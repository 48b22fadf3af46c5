"""The dialect, symbols and states of a document, for `nnefc inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnefc.cli.inspect.extents import shape_facts, shape_text
from nnefc.cli.support.printing import print_table, table

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.common.symbolic_graph import SymbolicGraph


def describe_source(source: GraphSource, sample: SymbolicGraph) -> dict[str, Any]:
    """The dialect, symbols and states of a document, for JSON."""
    graph = sample.graph
    shapes = {value.name: value.type.dims for value in graph.inputs if value.name in source.inputs}
    description = source.description()
    readings = [{"operation": name, "reading": text} for name, text in description["deviations"]]
    values = {**source.given, **source.symbol_values(shapes)}
    states = [
        {"name": state.name, **shape_facts(value.type.dims, sample.varying.get(value))}
        for state in graph.states
        if state.output is not None
        for value in [graph.outputs[state.output]]
    ]
    return {
        "dialect": description["dialect"],
        description["dialect"]: {
            "registries": description["registries"],
            "symbols": description["symbols"],
            "assertions": description["assertions"],
            "shapes": {each.name: list(each.extents) for each in source.shapes()},
            "values": values,
            "tried": bool(sample.values),
            "states": states,
            "readings": readings,
        },
        "symbols": values,
        "chosen_symbols": list(sample.values),
    }


def print_tract(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the facts of `describe_source`."""
    out.print(f"dialect sonos/tract, registries {', '.join(facts['registries']) or 'none'}")
    if facts["symbols"]:
        values = ", ".join(f"{name} = {value}" for name, value in facts["values"].items())
        why = "tried" if facts["tried"] else "here"
        known = f" ({why}: {values})" if values else ""
        out.print(f"symbols {', '.join(facts['symbols'])}{known}")
    for text in facts["assertions"]:
        out.print(f"assert  {text}")
    for name, extents in facts["shapes"].items():
        if not all(extent.isdigit() for extent in extents):
            out.print(f"shape   {name}: [{', '.join(extents)}]")
    for state in facts["states"]:
        extents = shape_text(state, brackets=False)
        out.print(f"state   {state['name']}: [{extents}] after a first call")
    if facts["readings"]:
        view = table("operation", "meaning in tract", fold=["meaning in tract"])
        for row in facts["readings"]:
            view.add_row(row["operation"], row["reading"])
        print_table(out, view)
