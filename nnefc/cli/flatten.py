"""`nnefc flatten`: print a document without fragments and expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnefc.cli.support.artifacts import report_counts
from nnefc.cli.support.import_and_compile import load
from nnefc.cli.support.option_groups import SourceOptions
from nnefc.cli.support.options import Model
from nnefc.cli.support.outputs import refuse_own_input


def flatten(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", readable=False, help="File to write instead of printing."),
    ] = None,
    *,
    source: SourceOptions,
) -> None:
    """Print the flattened document (chapter 6 of the specification).

    Fragments of the document are expanded and attributes are evaluated; the result is a sequence of
    standard operations that reads back as the same graph. An artifact has no document.

    A document in the dialect of tract becomes a standard one. Operations that the standard cannot
    express, and states, are errors. So are symbols without a value in --symbol or --shape, because
    shapes of the standard are numbers.

    Examples:

        nnefc flatten graph.nnef

        nnefc flatten net.nnef.tgz -o flat.nnef
    """
    from nnefc.formats.atomic import replace_file
    from nnefc.frontends.nnef.flatten import flatten as flattened

    if output is not None and str(output) != "-":
        refuse_own_input(model, output)
    graph = load(model, source.import_config(load_data=False), "a flat document has known shapes")
    text = flattened(graph)
    report_counts(graph)
    if output is None or str(output) == "-":
        typer.echo(text, nl=False)
        return
    with replace_file(output) as file:
        file.write(text.encode())
