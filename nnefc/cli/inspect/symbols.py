"""The dialect, symbols and states of a document, for `nnefc inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.inspect.extents import shape_facts, shape_text
from nnefc.cli.support.printing import print_table, table
from nnefc.formats.files import printable

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.common.symbolic_graph import SymbolicGraph

_LABELS: Final = 5
"""Labels that are shown; --json has all."""


def describe_source(source: GraphSource, sample: SymbolicGraph) -> dict[str, Any]:
    """The dialect, symbols and states of a document, for JSON."""
    graph = sample.graph
    by_values = source.value_inputs
    shapes = {
        value.name: value.type.dims
        for value in graph.inputs
        if value.name in source.inputs and value.name not in by_values
    }
    shapes |= {name: tuple(key) for name, key in sample.shapes.items() if name in by_values}
    description = source.description()
    dialect = description.pop("dialect")
    if "deviations" in description:
        deviations = description.pop("deviations")
        description["readings"] = [{"operation": op, "reading": text} for op, text in deviations]
    values = {**source.given, **source.symbol_values(shapes)}
    states = [
        {"name": state.name, **shape_facts(value.type.dims, sample.varying.get(value))}
        for state in graph.states
        if state.output is not None
        for value in [graph.outputs[state.output]]
    ]
    return {
        "dialect": dialect,
        dialect: {
            **description,
            "shapes": {each.name: list(each.extents) for each in source.shapes()},
            "value_inputs": {
                each.name: list(each.items) for each in source.shapes() if each.items is not None
            },
            "values": values,
            "tried": bool(sample.values),
            "states": states,
        },
        "symbols": values,
        "chosen_symbols": list(sample.values),
    }


def print_onnx(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the facts of an ONNX model."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    producer = f", by {facts['producer']}" if facts["producer"] else ""
    out.print(f"format  ONNX, operators {opsets or 'none'}{producer}", markup=False)
    _print_symbols(out, facts)


def print_tflite(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the facts of a TensorFlow Lite model."""
    by = f", {facts['description']}" if facts["description"] else ""
    out.print(f"format  TensorFlow Lite{by}", markup=False)
    if "package" in facts:
        out.print(f"package {', '.join(facts['package'])}", markup=False)
    for each in facts["signatures"]:
        ends = (", ".join(map(printable, each[side])) for side in ("inputs", "outputs"))
        out.print(f"signature {printable(each['key'])}: {' -> '.join(ends)}", markup=False)
    for each in facts["metadata"]:
        _print_metadata(out, each)
    _print_symbols(out, facts)


def print_torch(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the facts of a program of PyTorch."""
    out.print(f"format  PyTorch, kinds of operators: {len(facts['operators'])}", markup=False)
    _print_symbols(out, facts)


def _print_metadata(out: Console, facts: Mapping[str, Any]) -> None:
    """Print what the metadata of a model say about it."""
    lines: list[tuple[str, str]] = []
    if facts["min_runtime_version"]:
        lines.append(("runtime", f"version {facts['min_runtime_version']} or later"))
    lines += [
        (key, facts[key])
        for key in ("name", "version", "description", "author", "license")
        if facts.get(key)
    ]
    for side in ("inputs", "outputs"):
        for each in facts.get(side, ()):
            said = ". ".join(filter(None, (each["content"], each["description"])))
            lines.append((side[:-1], f"{each['name']}: {said}" if said else each["name"]))
            lines += [("labels", line) for line in _labels(each["files"], facts["labels"])]
    lines += [("fault", each) for each in facts["faults"]]
    if lines:
        out.print(f"metadata of {facts['file']}", markup=False)
    for key, text in lines:
        out.print(f"  {key:11} {printable(text)}", markup=False)


def _labels(
    files: Sequence[Mapping[str, Any]], labels: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """A line for each file with the labels of a tensor."""
    for name in (each["name"] for each in files if each["name"] in labels):
        lines = labels[name]
        more = ", ..." if len(lines) > _LABELS else ""
        yield f"{len(lines):,} in {name}: {', '.join(lines[:_LABELS])}{more}"


def print_tract(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the facts of a document in the dialect of tract."""
    out.print(f"dialect sonos/tract, registries {', '.join(facts['registries']) or 'none'}")
    _print_symbols(out, facts)
    if facts["readings"]:
        view = table("operation", "meaning in tract", fold=["meaning in tract"])
        for row in facts["readings"]:
            view.add_row(row["operation"], row["reading"])
        print_table(out, view)


def _print_symbols(out: Console, facts: Mapping[str, Any]) -> None:
    """Print symbols, assertions, shapes that symbols determine, and states."""
    if facts["symbols"]:
        values = ", ".join(f"{name} = {value}" for name, value in facts["values"].items())
        why = "tried" if facts["tried"] else "here"
        known = f" ({why}: {values})" if values else ""
        out.print(f"symbols {', '.join(facts['symbols'])}{known}")
    for text in facts.get("assertions", ()):
        out.print(f"assert  {text}")
    for name, extents in facts["shapes"].items():
        if not all(extent.isdigit() for extent in extents):
            out.print(f"shape   {name}: [{', '.join(extents)}]")
    for state in facts["states"]:
        extents = shape_text(state, brackets=False)
        out.print(f"state   {state['name']}: [{extents}] after a first call")
