"""`nnefc inspect`: what is in a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.artifacts import (
    ArtifactModel,
    ModelOrArtifact,
    file_facts,
    names_artifact,
    open_artifact,
    show_targets,
)
from nnefc.cli.support.models import read
from nnefc.cli.support.options import Dialect, Json, LimitOptions, Shapes, parse_import, usage
from nnefc.cli.support.printing import (
    console,
    count,
    print_json,
    print_table,
    quantity,
    size,
    table,
)

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.ir import Graph, Op
    from nnefc.runtime.artifact.read import Artifact


def inspect(
    context: typer.Context,
    model: ModelOrArtifact,
    weights: Annotated[
        bool, typer.Option("--weights", "-w", help="Describe the variables and their values.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(readable=False, help="Write a picture of the graph.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(readable=False, help="Write a page with the picture and the tables."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare all checksums of an artifact.")
    ] = False,
    digest: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The digest that an artifact must have: an error if not."),
    ] = None,
    shape: Shapes = None,
    dialect: Dialect = "auto",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Show the operations of a model: shapes, parameters, multiply-accumulates, memory.

    Of a document in the dialect of tract also its registries, symbols, assertions, the shapes as
    they are written, what operators keep from call to call, and which operations of the standard
    mean something else there. Symbols that --shape does not tell have small values for this.

    Of an artifact also its digest, the processors that it has code for, its sizes, and the
    variables that the graph updates. Its operations are those that are left to lower. None of its
    code runs.

    Examples:

        nnefc inspect net.nnef.tgz

        nnefc inspect net.nnef.tgz --weights

        nnefc inspect graph.nnef --html net.html

        nnefc inspect net.nnefc --verify

        nnefc inspect text.nnef.tgz --shape tokens=1,128
    """
    from nnefc.formats.atomic import replace_file

    for path, suffix in ((svg, ".svg"), (html, ".html")):
        if path is not None and path.suffix != suffix:
            raise usage(f"--{suffix[1:]} {path}: the name should end in {suffix}")
    if names_artifact(model):
        artifact = open_artifact(context, model, digest=digest, verify=verify)
        graph = ArtifactModel(artifact).graph if weights else artifact.structure
        verified = verify or digest is not None
        facts = {**describe(graph), "artifact": describe_artifact(artifact, verified)}
    elif verify or digest is not None:
        raise usage(f"{model} is no artifact: --verify and --digest have nothing to compare")
    else:
        graph, told = _read(model, shape, limit, weights, dialect)
        facts = {**describe(graph), **told}
    if weights:
        facts["variables"] = describe_weights(graph)
    if svg is not None or html is not None:
        from nnefc.cli.inspect.picture import draw_html, draw_svg

        if svg is not None:
            with replace_file(svg) as file:
                file.write(draw_svg(graph).encode())
        if html is not None:
            with replace_file(html) as file:
                file.write(draw_html(graph, facts).encode())
    if json:
        print_json(facts)
    elif svg is None and html is None:
        _print(facts, weights)


def _read(
    model: str,
    shape: list[str] | None,
    limit: list[str] | None,
    weights: bool,
    dialect: str,
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a document, and facts of its dialect.

    Symbols without values get small ones.

    """
    from nnefc.cli.inspect.symbols import describe_source
    from nnefc.cli.support.printing import reported
    from nnefc.frontends.common.graph_source import sample_graph
    from nnefc.ir import Graph

    config = parse_import(shapes=shape, limits=limit, data=weights, dialect=dialect)
    found = read(model, config, sources=True)
    if isinstance(found, Graph):
        return found, {"dialect": "nnef"}
    with reported() as diagnostics:
        trial = sample_graph(found, config.shapes, diagnostics)
    return trial.graph, describe_source(found, trial)


def describe(graph: Graph) -> dict[str, Any]:
    """Everything the table shows, as plain data."""
    from nnefc.ops.tools.cost import largest_live_bytes, parameter_bytes, parameters

    known = all(v.type.shape is not None for op in graph.ops for v in op.outputs)
    operations = [_operation(op) for op in graph.ops if op.name not in ("constant", "variable")]
    return {
        "name": graph.name,
        "inputs": [_tensor(v.name, v.type) for v in graph.inputs],
        "outputs": [
            _tensor(n, v.type) for n, v in zip(graph.output_names, graph.outputs, strict=True)
        ],
        "operations": operations,
        "parameters": parameters(graph),
        "parameter_bytes": parameter_bytes(graph),
        "macs": sum(row["macs"] or 0 for row in operations),
        "activation_bytes": largest_live_bytes(graph) if known else None,
    }


def describe_artifact(artifact: Artifact, verified: bool) -> dict[str, Any]:
    """Facts of an artifact file besides its graph."""
    import numpy as np

    present = artifact.present()
    states = [
        {
            **_tensor(variable.label, variable.type),
            "changed": not np.array_equal(
                np.asarray(variable.data), present[variable.label], equal_nan=True
            ),
        }
        for variable in artifact.variables().values()
    ]
    return {**file_facts(artifact), "states": states, "verified": verified}


def _tensor(name: str, type_: Any) -> dict[str, Any]:
    shape = None if type_.shape is None else list(type_.shape)
    return {"name": name, "dtype": str(type_.dtype), "shape": shape}


def _operation(op: Op) -> dict[str, Any]:
    from nnefc.ops.tools.cost import macs

    known = all(v.type.shape is not None for v in (*op.inputs, *op.outputs))
    stored = [v for v in op.inputs if v.op is not None and v.op.name == "variable"]
    return {
        "name": ", ".join(v.name for v in op.outputs if v.name),
        "operation": op.name,
        "inputs": [v.name for v in op.inputs if v.name],
        "outputs": [_tensor(v.name, v.type) for v in op.outputs],
        "parameters": sum(v.type.volume for v in stored),
        "macs": macs(op) if known else None,
        "line": op.location.place.line if op.location else None,
    }


def describe_weights(graph: Graph) -> list[dict[str, Any]]:
    """Label, type, size and statistics of every variable."""
    import numpy as np

    rows: list[dict[str, Any]] = []
    for variable in graph.variables.values():
        row: dict[str, Any] = {
            **_tensor(variable.label, variable.type),
            "parameters": variable.type.volume,
            "bytes": variable.type.nbytes,
        }
        if variable.data is not None:
            data = variable.data
            with np.errstate(all="ignore"):
                row |= {
                    "min": float(data.min()),
                    "max": float(data.max()),
                    "mean": float(data.mean(dtype=np.float64)),
                    "std": float(data.std(dtype=np.float64)),
                    "zeros": int(data.size - np.count_nonzero(data)),
                    "not_finite": int(data.size - np.isfinite(data).sum()),
                }
        rows.append(row)
    return rows


def _print_file(out: Console, facts: dict[str, Any]) -> None:
    for state in facts["states"]:
        changed = ", changed since the start" if state["changed"] else ""
        out.print(f"state   {state['name']}: {state['dtype']}[{_extents(state)}]{changed}")
    out.print(
        f"file    {size(facts['bytes'])}: weights {size(facts['weights_bytes'])}, code, graph and "
        f"tables {size(facts['head_bytes'])}; written by nnefc {facts['nnefc']}, format "
        f"{facts['format']}, accuracy {facts['accuracy']}"
    )
    right = ", all checksums are right" if facts["verified"] else ""
    out.print(f"digest  {facts['digest']}{right}")
    show_targets(out, facts["targets"])


def _extents(tensor: dict[str, Any]) -> str:
    return "?" if tensor["shape"] is None else "x".join(map(str, tensor["shape"])) or "scalar"


def _print(facts: dict[str, Any], weights: bool) -> None:
    out = console()
    artifact = facts.get("artifact")
    if "tract" in facts:
        from nnefc.cli.inspect.symbols import print_tract

        print_tract(out, facts["tract"])
    if artifact is not None:
        out.print(f"name    {facts['name']}")
    for kind in ("inputs", "outputs"):
        listed = ", ".join(f"{t['name']}: {t['dtype']}[{_extents(t)}]" for t in facts[kind])
        out.print(f"{kind[:-1]:7} {listed}")
    if artifact is not None:
        _print_file(out, artifact)
    if weights:
        columns = ("label", "shape", "type", "items", "min", "max", "mean", "std", "zeros")
        view = table(*columns, numeric=columns[3:], fold=["label"])
        for row in facts["variables"]:
            numbers = [f"{row[k]:.4g}" if k in row else "" for k in ("min", "max", "mean", "std")]
            zeros = str(row.get("zeros", ""))
            cells = (row["name"], _extents(row), row["dtype"], f"{row['parameters']:,}")
            view.add_row(*cells, *numbers, zeros)
        print_table(out, view)
    else:
        columns = ("name", "operation", "output", "parameters", "MACs")
        view = table(*columns, numeric=columns[3:], fold=["name", "output"])
        for row in facts["operations"]:
            view.add_row(
                row["name"],
                row["operation"],
                ", ".join(_extents(t) for t in row["outputs"]),
                f"{row['parameters']:,}" if row["parameters"] else "",
                f"{row['macs']:,}" if row["macs"] else "",
            )
        print_table(out, view)
    memory = facts["activation_bytes"]
    out.print(
        f"{count(len(facts['operations']), 'operation')}, "
        f"{quantity(facts['parameters'])} parameters ({size(facts['parameter_bytes'])}), "
        f"{quantity(facts['macs'])} MACs"
        + ("" if memory is None else f", {size(memory)} of activations alive at most")
    )
