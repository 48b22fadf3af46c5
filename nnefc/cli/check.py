"""`nnefc check`: report the errors of documents."""

from __future__ import annotations

from typing import Annotated

import typer

from nnefc.cli.support.diagnostics import record, report
from nnefc.cli.support.options import Dialect, Json, LimitOptions, Strict, model_path, parse_limits
from nnefc.cli.support.printing import print_json, reading
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Documents, folders, archives, .onnx, .tflite or .pt2 files.",
        ),
    ],
    strict: Strict = False,
    dialect: Dialect = "auto",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Check documents, and the data and quantization that come with them.

    A document without any data is valid; one with the data of only some variables is not. An
    artifact has no document: nnefc inspect --verify verifies its checksums.

    A document in the dialect of tract, or an ONNX model, whose inputs have symbolic extents is
    checked with small values for them, which a note names.

    Silent, with status 0, if all are valid. Otherwise every error goes to standard error as
    FILE:LINE:COLUMN: error: ..., and the status is 1.

    Examples:

        nnefc check graph.nnef

        nnefc check models/*.tgz --strict

        nnefc check net.nnef.tgz --json

        nnefc check net.onnx
    """
    findings = [(file, *_findings(file, strict, limit, dialect)) for file in files]
    if json:
        print_json(
            [
                {
                    "file": file,
                    "valid": not errors,
                    "errors": [record(d) for d in errors],
                    "warnings": [record(d) for d in warnings],
                }
                for file, errors, warnings in findings
            ]
        )
    else:
        for _, errors, warnings in findings:
            report([*warnings, *errors])
    if any(errors for _, errors, _ in findings):
        raise typer.Exit(1)


def _findings(
    file: str, strict: bool, limit: list[str] | None, dialect: str
) -> tuple[tuple[Diagnostic, ...], list[Diagnostic]]:
    """The errors and the warnings of one file."""
    from nnefc.api.check import FATAL, check_model

    limits = parse_limits(limit)
    diagnostics = Diagnostics(strict=strict, limit=limits.errors, fatal=FATAL)
    try:
        with reading():
            check_model(model_path(file), diagnostics, limits, dialect)
    except NnefError as error:
        return error.errors, diagnostics.warnings
    return (), diagnostics.warnings
