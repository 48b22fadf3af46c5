"""The tables of `nnefc inspect`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nnefc.cli.inspect.extents import note_of, shape_text, symbols_text
from nnefc.cli.support.artifacts import print_plans, print_targets
from nnefc.cli.support.printing import console, count, print_table, quantity, size, table

if TYPE_CHECKING:
    from rich.console import Console


def _print_artifact(out: Console, facts: dict[str, Any]) -> None:
    """Print the states, sizes, digest and targets of an artifact."""
    for state in facts["states"]:
        changed = ", not its initial value" if state["changed"] else ""
        out.print(f"state   {state['name']}: {state['dtype']}[{shape_text(state)}]{changed}")
    out.print(
        f"file    {size(facts['bytes'])}: weights {size(facts['weights_bytes'])}, code, graph and "
        f"tables {size(facts['head_bytes'])}; written by nnefc {facts['nnefc']}, format "
        f"{facts['format']}, accuracy {facts['accuracy']}, precision "
        f"{facts['precision']}"
    )
    verified = ", all checksums match" if facts["verified"] else ""
    out.print(f"digest  {facts['digest']}{verified}")
    print_plans(out, facts)
    print_targets(out, facts["targets"])


def _layers_text(facts: dict[str, Any]) -> str:
    """The nodes of a graph of OpenVX as its `description` has them."""
    from nnefc.frontends.openvx.describe import Description

    launches = Counter[str]()
    for each in facts["launches"]:
        launches[each["kernel"]] += each["times"]
    return Description(*(facts[name] for name in Description._fields)).text(launches)


def print_facts(facts: dict[str, Any], weights: bool) -> None:
    """Print inputs, outputs, then the operations, or with `weights` the variables."""
    out = console()
    artifact = facts.get("artifact")
    if {"tract", "onnx", "tflite", "torch"} & {*facts}:
        from nnefc.cli.inspect.symbols import print_onnx, print_tflite, print_torch, print_tract

        if "tract" in facts:
            print_tract(out, facts["tract"])
        elif "onnx" in facts:
            print_onnx(out, facts["onnx"])
        elif "torch" in facts:
            print_torch(out, facts["torch"])
        else:
            print_tflite(out, facts["tflite"])
    if artifact is not None:
        out.print(f"name    {facts['name']}")
    for kind in ("inputs", "outputs"):
        listed = ", ".join(
            f"{t['name']}: {t['dtype']}[{shape_text(t, brackets=False)}]" for t in facts[kind]
        )
        out.print(f"{kind[:-1]:7} {listed}")
    if artifact is not None:
        _print_artifact(out, artifact)
    if "openvx" in facts:
        layers = facts["openvx"]
        out.print(f"OpenVX  arithmetic {layers['arithmetic']}", markup=False)
        out.print(_layers_text(layers), markup=False)
    if weights:
        _print_variables(out, facts["variables"])
    else:
        _print_operations(out, facts["operations"])
    out.print(totals(facts))
    if note := note_of(facts):
        out.print(note)


def _print_variables(out: Console, variables: list[dict[str, Any]]) -> None:
    columns = ("label", "shape", "type", "items", "min", "max", "mean", "std", "zeros")
    view = table(*columns, numeric=columns[3:], fold=["label"])
    for row in variables:
        numbers = [f"{row[k]:.4g}" if k in row else "" for k in ("min", "max", "mean", "std")]
        zeros = str(row.get("zeros", ""))
        cells = (row["name"], shape_text(row), row["dtype"], f"{row['parameters']:,}")
        view.add_row(*cells, *numbers, zeros)
    print_table(out, view, optional=["items", "zeros", "std", "mean"])


def _print_operations(out: Console, operations: list[dict[str, Any]]) -> None:
    columns = ("name", "operation", "output", "parameters", "MACs")
    view = table(*columns, numeric=columns[3:], fold=["name", "output"])
    for row in operations:
        view.add_row(
            row["name"],
            row["operation"],
            ", ".join(shape_text(t) for t in row["outputs"]),
            f"{row['parameters']:,}" if row["parameters"] else "",
            f"{row['macs']:,}" if row["macs"] else "",
        )
    print_table(out, view)


def totals(facts: dict[str, Any]) -> str:
    """A line: numbers of operations, parameters and MACs, and memory of activations if known."""
    memory, symbols = facts["activation_bytes"], symbols_text(facts)
    return (
        f"{count(len(facts['operations']), 'operation')}, "
        f"{quantity(facts['parameters'])} parameters ({size(facts['parameter_bytes'])}), "
        f"{quantity(facts['macs'])} MACs"
        + ("" if memory is None else f", activations take {size(memory)} at most")
        + (f"; MACs and activations are for {symbols}" if symbols else "")
    )
