"""`nnefc inspect`: the operations, weights and files of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nnefc.cli.inspect.facts import describe, describe_artifact, describe_layers, describe_weights
from nnefc.cli.inspect.tables import print_facts
from nnefc.cli.support.diagnostics import reported
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.opened_model import (
    ArtifactModel,
    names_artifact,
    open_artifact,
    source_of,
)
from nnefc.cli.support.option_groups import SourceOptions
from nnefc.cli.support.options import Json, ModelOrArtifact, model_path, parse_shapes, usage
from nnefc.cli.support.outputs import check_suffix
from nnefc.cli.support.printing import print_json

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.common.symbolic_graph import Extents
    from nnefc.ir import Graph, Value
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact

Weights = Annotated[
    bool, typer.Option("--weights", "-w", help="Describe the variables and their values.")
]
Svg = Annotated[Path | None, typer.Option(readable=False, help="Write a picture of the graph.")]
Html = Annotated[
    Path | None,
    typer.Option(readable=False, help="Write a page with the picture and the tables."),
]
Verify = Annotated[bool, typer.Option("--verify", help="Verify all checksums of an artifact.")]
Digest = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="Fail unless the artifact has this digest."),
]


def inspect(
    context: typer.Context,
    model: ModelOrArtifact,
    weights: Weights = False,
    svg: Svg = None,
    html: Html = None,
    verify: Verify = False,
    digest: Digest = None,
    json: Json = False,
    *,
    options: SourceOptions,
) -> None:
    """Show the operations of a model: shapes, parameters, multiply-accumulates, memory.

    For a document in the dialect of tract, also its registries, symbols, assertions, declared
    shapes, states of operators, and the operations whose semantics differ from the standard.
    Extents that depend on symbols without a value in --shape or --symbol are expressions, such as
    2*S; multiply-accumulates and memory are for sample values of these symbols.

    For an ONNX model, also the versions of its operators, its producer and its symbols.

    For a program of PyTorch, also its symbols.

    For a TensorFlow Lite model or an nnpackage, also the signatures and the metadata, with the
    labels of outputs.

    For an artifact, also its digest, targets, sizes, and the variables that the graph updates. The
    operations are those after the passes. None of its code runs. For one of an OpenVX graph, also
    its nodes.

    Examples:

        nnefc inspect net.nnef.tgz

        nnefc inspect net.nnef.tgz --weights

        nnefc inspect graph.nnef --html net.html

        nnefc inspect net.nnefc --verify

        nnefc inspect text.nnef.tgz --symbol S=128
    """
    check_suffix("--svg", svg, ".svg")
    check_suffix("--html", html, ".html")
    if names_artifact(model):
        artifact = open_artifact(context, model, digest=digest, verify=verify)
        described, facts = _of_artifact(artifact, options, weights)
        facts["artifact"] = describe_artifact(artifact, verify or digest is not None)
        facts |= describe_layers(artifact)
    elif verify or digest is not None:
        raise usage(f"{model} is no artifact: --verify and --digest do not apply")
    else:
        described, facts = _read(model, options, data=weights)
    if weights:
        facts["variables"] = describe_weights(described.graph)
    _write_pictures(described, facts, svg, html)
    if json:
        print_json(facts)
    elif svg is None and html is None:
        print_facts(facts, weights)


class _Described(NamedTuple):
    """A graph, and its shapes that depend on symbols."""

    graph: Graph
    varying: Mapping[Value, Extents] = {}


def _write_pictures(
    described: _Described, facts: dict[str, Any], svg: Path | None, html: Path | None
) -> None:
    """Write the picture and the page that were asked for."""
    if svg is None and html is None:
        return
    from nnefc.cli.inspect.picture import draw_html, draw_svg
    from nnefc.formats.atomic import replace_file

    if svg is not None:
        with replace_file(svg) as file:
            file.write(draw_svg(*described).encode())
    if html is not None:
        with replace_file(html) as file:
            file.write(draw_html(*described, facts).encode())


def _read(model: str, options: SourceOptions, *, data: bool) -> tuple[_Described, dict[str, Any]]:
    """(the graph of a document, its facts)."""
    from nnefc.ir import Graph

    _refuse_code(model)
    source = read(model, options.import_config(load_data=data), sources=True)
    if isinstance(source, Graph):
        return _Described(source), {**describe(source), "dialect": "nnef"}
    return _of_source(source, options)


def _refuse_code(model: str) -> None:
    """Raise NnefError for a folder that `nnefc compile --emit` wrote."""
    from nnefc.emit.earlier_folder import EarlierFolder

    folder = model_path(model)
    names = EarlierFolder.of(folder).models
    if names and not (folder / "graph.nnef").exists():
        raise usage(
            f"{model} has compiled code, without the operations of {', '.join(names)}",
            f"inspect the document or the artifact; {names[0]}.h lists inputs and outputs",
        )


def _of_artifact(
    artifact: Artifact | DynamicArtifact, options: SourceOptions, weights: bool
) -> tuple[_Described, dict[str, Any]]:
    """(the graph of an artifact, its facts)."""
    if artifact.is_dynamic is True:
        return _of_source(source_of(artifact, options), options)
    graph = ArtifactModel(artifact).graph if weights else artifact.structure
    return _Described(graph), describe(graph)


def _of_source(source: GraphSource, options: SourceOptions) -> tuple[_Described, dict[str, Any]]:
    """(a graph of a document with symbols, its facts)."""
    from nnefc.cli.inspect.symbols import describe_source
    from nnefc.frontends.common.symbolic_graph import symbolic_graph

    shapes = parse_shapes(options.shape) or {}
    with reported() as diagnostics:
        source.check(shapes)
        symbolic = symbolic_graph(source, shapes, diagnostics)
    described = _Described(symbolic.graph, symbolic.varying)
    return described, {**describe(*described), **describe_source(source, symbolic)}
