"""`nnefc convert`: write a model as an NNEF document or an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from nnefc.cli.convert.check import check_conversion
from nnefc.cli.convert.report import conversion_facts, print_check, print_conversion
from nnefc.cli.support.import_and_compile import load
from nnefc.cli.support.option_groups import DocumentOptions
from nnefc.cli.support.options import Json, Model, RandomInputs, Threads, usage
from nnefc.cli.support.printing import print_json, progress

if TYPE_CHECKING:
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.emit.convert.onnx_model import OnnxModel
    from nnefc.ir import Graph

ARCHIVES: Final = (".tgz", ".tar.gz", ".tar")
"""Suffixes of archives that hold documents."""
ONNX: Final = ".onnx"

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        readable=False,
        help="What to write: an NNEF archive (.tgz, .tar.gz, .tar), a folder with graph.nnef, or "
        "an ONNX file (.onnx).",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Compile the model and what was written, run both on random inputs, and compare the "
        "results bit for bit. Status 1 if they differ.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        help="Largest difference that --check accepts, relative to the largest magnitude of a "
        "result.",
    ),
]


def convert(
    model: Model,
    output: Output,
    check: Check = False,
    tolerance: Tolerance = 0.0,
    random_inputs: RandomInputs = 0,
    threads: Threads = None,
    json: Json = False,
    *,
    document: DocumentOptions,
) -> None:
    """Write a model as an NNEF document or an ONNX file.

    The document is in NNEF 1.0.2 where that has the operations of the model; the command tells
    which operations are of later versions. Operations that the document cannot say are errors, all
    of them at once, and nothing is written. An existing file is replaced when the new one is whole.

    Shapes are fixed: --symbol and --shape give the extents that are symbols. Names of inputs and
    results stay, except those that are no identifiers.

    Examples:

        nnefc convert net.onnx -o net.nnef.tgz

        nnefc convert net.onnx -o net.nnef.tgz --symbol batch=1 --check

        nnefc convert net.nnef.tgz -o net.onnx
    """
    if not tolerance >= 0:
        raise usage(f"--tolerance {tolerance:g}: must be at least 0")
    check_target(output)
    graph = load(model, document.config_of(model))
    written = _write(graph, output)
    facts = conversion_facts(written.converted, output)
    checked = None
    if check:
        checked = check_conversion(graph, written.converted, output, random_inputs or 0, threads)
        facts["check"] = {"tolerance": tolerance, **checked.facts(tolerance)}
    if json:
        print_json(facts)
    else:
        print_conversion(facts)
        if checked is not None:
            print_check(checked, tolerance)
    if checked is not None and not checked.agrees(tolerance):
        raise typer.Exit(1)


def check_target(output: Path) -> None:
    """Raise NnefError for an output whose name has no known suffix."""
    name = output.name.lower()
    if str(output) == "-":
        raise usage("--output -: a model is written to a file or a folder", "-o net.nnef.tgz")
    if output.suffix and not name.endswith((*ARCHIVES, ONNX)) and not output.is_dir():
        raise usage(
            f"--output {output}: no format has the suffix {output.suffix}",
            f"NNEF: {', '.join(ARCHIVES)}, or a folder; ONNX: {ONNX}",
        )


def _write(graph: Graph, output: Path) -> NnefModel | OnnxModel:
    """Convert a graph and write the result."""
    if output.name.lower().endswith(ONNX):
        from nnefc.frontends.onnx.package import require_onnx

        require_onnx(str(output))
        from nnefc.emit.convert.onnx_model import onnx_model

        model = onnx_model(graph)
    else:
        from nnefc.emit.convert.nnef_model import nnef_model

        model = nnef_model(graph)
    with progress("writing", late=True) as advance:
        model.write(output, advance)
    return model
