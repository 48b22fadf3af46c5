"""`nnefc convert`: write a model as an NNEF document or an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeGuard, cast

import typer

from nnefc.cli.convert.check import check_conversion
from nnefc.cli.convert.report import conversion_facts, print_check, print_conversion
from nnefc.cli.support.diagnostics import naming_file, report, reported
from nnefc.cli.support.import_and_compile import load, read
from nnefc.cli.support.option_groups import DocumentOptions
from nnefc.cli.support.options import (
    DIALECTS,
    Json,
    Model,
    RandomInputs,
    Threads,
    choice,
    parse_import,
    usage,
)
from nnefc.cli.support.outputs import refuse_own_input
from nnefc.cli.support.printing import print_json, progress
from nnefc.formats.paths import is_tflite
from nnefc.support.errors import Diagnostic, Place

if TYPE_CHECKING:
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.emit.convert.onnx.model import OnnxModel
    from nnefc.emit.convert.tract_model import To as Language
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.tflite.source import TfliteSource
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig
    from nnefc.support.progress import Progress

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


CheckSymbols = Annotated[
    list[str] | None,
    typer.Option(
        "--check-symbol",
        metavar="NAME=VALUE",
        help="The value of a symbol for --check, where the document keeps it; by default --check "
        "chooses values.",
    ),
]
ExternalData = Annotated[
    bool,
    typer.Option(
        "--external-data",
        help="Write the weights of an ONNX file to a file of their own, OUTPUT.data, which happens "
        "above 2 GiB in any case.",
    ),
]
To = Annotated[
    str,
    choice(
        "--to",
        DIALECTS,
        "The language of the document: NNEF 1.0.2, or the dialect of sonos/tract; auto: the "
        "dialect where NNEF 1.0.2 cannot say what the model computes.",
    ),
]


def convert(
    model: Model,
    output: Output,
    to: To = "auto",
    external_data: ExternalData = False,
    check: Check = False,
    check_symbol: CheckSymbols = None,
    tolerance: Tolerance = 0.0,
    random_inputs: RandomInputs = 0,
    threads: Threads = None,
    json: Json = False,
    *,
    document: DocumentOptions,
) -> None:
    """Write a model as an NNEF document or an ONNX file.

    The document is in NNEF 1.0.2 where that can say what the model computes, otherwise in the
    dialect of sonos/tract; the command tells which, and why. What no document can say is an error,
    all at once, and nothing is written. An existing file is replaced when the new one is whole.

    Extents that are symbols stay symbols in the dialect and in ONNX; --symbol and --shape give them
    values.

    Examples:

        nnefc convert net.onnx -o net.nnef.tgz

        nnefc convert net.onnx -o net.nnef.tgz --symbol batch=1 --check

        nnefc convert decoder.onnx -o decoder.nnef.tgz --check --check-symbol past=8

        nnefc convert net.nnef.tgz -o net.onnx --external-data
    """
    if not tolerance >= 0:
        raise usage(f"--tolerance {tolerance:g}: must be at least 0")
    check_target(model, output)
    check_format(to, output)
    if external_data and not output.name.lower().endswith(ONNX):
        raise usage(f"--external-data: {output} is no ONNX file", "leave it out")
    config = document.config_of(model)
    source, written = _converted(model, config, output, to)
    with progress("writing", late=True) as advance:
        files = _write(written, output, advance, external=external_data)
    facts = conversion_facts(written.converted, output, files)
    checked = None
    if check:
        if check_symbol:
            source = read(model, _with_symbols(config, check_symbol), quiet=True, sources=True)
        checked = check_conversion(
            source, config.shapes, written.converted, output, random_inputs or 0, threads
        )
        facts["check"] = {"tolerance": tolerance, **checked.facts(tolerance)}
    if json:
        print_json(facts)
    else:
        print_conversion(facts)
        if checked is not None:
            print_check(checked, tolerance, facts["format"])
    if checked is not None and not checked.agrees(tolerance):
        raise typer.Exit(1)


def _write(
    written: NnefModel | OnnxModel, output: Path, progress: Progress, *, external: bool
) -> list[Path]:
    """Write a file or a folder; returns what was written.

    `external`: the weights of an ONNX file go to a file beside it.
    """
    from nnefc.emit.convert.onnx.model import OnnxModel

    if isinstance(written, OnnxModel):
        files = written.write(output, progress, external=external)
        if external and len(files) == 1:
            message = "no file of data is written: no weight is large enough for it"
            report([Diagnostic("input/option", message, Place(str(output)), "note")])
        return files
    written.write(output, progress)
    return [output]


def _with_symbols(config: ImportConfig, symbols: list[str]) -> ImportConfig:
    """How a model is read whose symbols have further values."""
    return config._replace(symbols={**config.symbols, **parse_import(symbols=symbols).symbols})


def check_target(model: str, output: Path) -> None:
    """Raise NnefError for an output whose name has no known suffix, that is the model itself, or
    where nothing can be written.
    """
    from nnefc.formats.atomic import require_writable
    from nnefc.formats.container_writer import require_writable_container

    name = output.name.lower()
    if str(output) == "-":
        raise usage("--output -: a model is written to a file or a folder", "-o net.nnef.tgz")
    if output.suffix and not name.endswith((*ARCHIVES, ONNX)) and not output.is_dir():
        raise usage(
            f"--output {output}: no format has the suffix {output.suffix}",
            f"NNEF: {', '.join(ARCHIVES)}, or a folder; ONNX: {ONNX}",
        )
    refuse_own_input(model, output)
    require_writable(output) if name.endswith(ONNX) else require_writable_container(output)


def check_format(to: str, output: Path) -> None:
    """Raise NnefError for a `--to` that is no language of documents, or does not fit the output."""
    if to not in DIALECTS:
        raise usage(f"--to {to}: expected one of {', '.join(DIALECTS)}")
    if to != "auto" and output.name.lower().endswith(ONNX):
        raise usage(f"--to {to}: {output} is an ONNX file", "leave out --to")


def _converted(
    model: str, config: ImportConfig, output: Path, to: str
) -> tuple[Graph | GraphSource, NnefModel | OnnxModel]:
    """The model, and what is to be written.

    Records in the model are ignored: what they record has no operations in other formats.
    """
    config = config._replace(records=False)
    if output.name.lower().endswith(ONNX):
        from nnefc.frontends.onnx.package import require_onnx

        require_onnx(str(output))
        from nnefc.emit.convert.onnx.model import onnx_model_of

        source = read(model, config, sources=True)
        with naming_file(model), reported(config.diagnostics()) as diagnostics:
            if _is_tflite(source):
                from nnefc.emit.convert.tflite_model import tflite_onnx_model

                return source, tflite_onnx_model(source, config.shapes, diagnostics)
            return source, onnx_model_of(source, config.shapes, diagnostics)
    from nnefc.emit.convert.tract_model import document_of
    from nnefc.formats.nnpackage.package_files import is_nnpackage
    from nnefc.ir import Graph

    source = read(model, config, sources=True)
    has_states = not isinstance(source, Graph) and source.first_states
    if to == "nnef" and not (has_states or is_tflite(model) or is_nnpackage(model)):
        source = load(model, config, "NNEF 1.0.2 has no symbols")
    with naming_file(model), reported(config.diagnostics()) as diagnostics:
        if _is_tflite(source):
            from nnefc.emit.convert.tflite_model import tflite_document

            language = cast("Language", to)
            return source, tflite_document(source, config.shapes, diagnostics, language)
        return source, document_of(source, config.shapes, cast("Language", to), diagnostics)


def _is_tflite(source: Graph | GraphSource) -> TypeGuard[TfliteSource]:
    """Whether a model is one of TensorFlow Lite, or a package of those."""
    from nnefc.frontends.tflite.source import TfliteSource

    return isinstance(source, TfliteSource)
