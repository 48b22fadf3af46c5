"""`nnefc inspect`: the operations, weights and files of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.inspect.facts import describe, describe_artifact, describe_weights
from nnefc.cli.inspect.tables import print_facts
from nnefc.cli.support.diagnostics import reported
from nnefc.cli.support.documents import DocumentOptions
from nnefc.cli.support.models import read
from nnefc.cli.support.opened_model import (
    ArtifactModel,
    names_artifact,
    open_artifact,
    source_of,
)
from nnefc.cli.support.options import (
    Dialect,
    Json,
    LimitOptions,
    ModelOrArtifact,
    Shapes,
    parse_import,
    parse_shapes,
    usage,
)
from nnefc.cli.support.printing import print_json
from nnefc.cli.support.symbols import Symbols

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph
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
    shape: Shapes = None,
    symbol: Symbols = None,
    dialect: Dialect = "auto",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Show the operations of a model: shapes, parameters, multiply-accumulates, memory.

    For a document in the dialect of tract, also its registries, symbols, assertions, declared
    shapes, states of operators, and the operations whose semantics differ from the standard.
    Symbols without a value in --shape or --symbol get small ones.

    For an artifact, also its digest, targets, sizes, and the variables that the graph updates. The
    operations are those after the passes. None of its code runs.

    Examples:

        nnefc inspect net.nnef.tgz

        nnefc inspect net.nnef.tgz --weights

        nnefc inspect graph.nnef --html net.html

        nnefc inspect net.nnefc --verify

        nnefc inspect text.nnef.tgz --symbol S=128
    """
    for path, suffix in ((svg, ".svg"), (html, ".html")):
        if path is not None and path.suffix != suffix:
            raise usage(f"--{suffix[1:]} {path}: the name should end in {suffix}")
    options = DocumentOptions.of(context)
    if names_artifact(model):
        artifact = open_artifact(context, model, digest=digest, verify=verify)
        graph, facts = _of_artifact(artifact, options, weights)
        facts["artifact"] = describe_artifact(artifact, verify or digest is not None)
    elif verify or digest is not None:
        raise usage(f"{model} is no artifact: --verify and --digest do not apply")
    else:
        graph, source_facts = _read(options, data=weights)
        facts = {**describe(graph), **source_facts}
    if weights:
        facts["variables"] = describe_weights(graph)
    _write_pictures(graph, facts, svg, html)
    if json:
        print_json(facts)
    elif svg is None and html is None:
        print_facts(facts, weights)


def _write_pictures(
    graph: Graph, facts: dict[str, Any], svg: Path | None, html: Path | None
) -> None:
    """Write the picture and the page that were asked for."""
    if svg is None and html is None:
        return
    from nnefc.cli.inspect.picture import draw_html, draw_svg
    from nnefc.formats.atomic import replace_file

    if svg is not None:
        with replace_file(svg) as file:
            file.write(draw_svg(graph).encode())
    if html is not None:
        with replace_file(html) as file:
            file.write(draw_html(graph, facts).encode())


def _read(options: DocumentOptions, *, data: bool) -> tuple[Graph, dict[str, Any]]:
    """(the graph of a document, facts of its dialect); symbols without values get small ones."""
    from nnefc.ir import Graph

    config = parse_import(
        shapes=options.shape,
        symbols=options.symbol,
        limits=options.limit,
        dialect=options.dialect,
        data=data,
    )
    source = read(options.model, config, sources=True)
    if isinstance(source, Graph):
        return source, {"dialect": "nnef"}
    return _of_source(source, options)


def _of_artifact(
    artifact: Artifact | DynamicArtifact, options: DocumentOptions, weights: bool
) -> tuple[Graph, dict[str, Any]]:
    """(the graph of an artifact, its facts and those of its dialect)."""
    if artifact.is_dynamic is True:
        graph, source_facts = _of_source(source_of(artifact, options), options)
        return graph, {**describe(graph), **source_facts}
    graph = ArtifactModel(artifact).graph if weights else artifact.structure
    return graph, describe(graph)


def _of_source(source: GraphSource, options: DocumentOptions) -> tuple[Graph, dict[str, Any]]:
    """(a graph of a document with symbols, facts of its dialect)."""
    from nnefc.cli.inspect.symbols import describe_source
    from nnefc.frontends.common.graph_source import sample_graph

    shapes = parse_shapes(options.shape) or {}
    with reported() as diagnostics:
        sample = sample_graph(source, shapes, diagnostics)
    return sample.graph, describe_source(source, sample)
