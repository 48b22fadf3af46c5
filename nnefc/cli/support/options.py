"""Options that several commands have, and what is typed for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

if TYPE_CHECKING:
    from nnefc.options.import_config import ImportConfig

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder or archive (.tar, .tgz, .tar.gz, .tar.bz2, .tar.xz, .zip) with graph.nnef "
        "in it, or a graph.nnef.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        "-s",
        metavar="NAME=EXTENTS",
        help="Replace the shape of an external, as in -s input=8,3,224,224; repeatable.",
    ),
]
RandomWeights = Annotated[
    int | None,
    typer.Option(
        metavar="SEED", min=0, help="Fill variables that have no data with random values."
    ),
]
Scalar = Annotated[
    str,
    typer.Option(
        "--scalar",
        metavar="TYPE",
        help="float32 or float64: type of scalars.",
        autocompletion=lambda: ["float32", "float64"],
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", "-t", metavar="N", min=1, help="Threads to use (default: all CPUs)."),
]
Accuracy = Annotated[
    str,
    typer.Option(
        "--accuracy",
        metavar="fast|strict",
        help="fast: convolutions may have rounding errors of up to 2e-4 of the largest result; "
        "strict: sums of products only, below 1e-5.",
        autocompletion=lambda: ["fast", "strict"],
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Treat warnings as errors: NNEF 1.0.2 to the letter."),
]
Dialect = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="auto|nnef|tract",
        help="How the document is read: as NNEF 1.0, or as sonos/tract does; auto: as it declares.",
        autocompletion=lambda: ["auto", "nnef", "tract"],
    ),
]
LimitOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="Raise a limit, as in --limit recursion=5000; repeatable. "
        "Names: " + ", ".join(f.name for f in fields(Limits)) + ".",
        autocompletion=lambda: [f"{f.name}=" for f in fields(Limits)],
    ),
]


def usage(message: str, hint: str = "") -> NnefError:
    """The error for an option that makes no sense."""
    return NnefError.of("input/option", message, hint=hint)


def model_path(name: str) -> Path:
    """The path of a model as it was typed; NnefError for what would mean something else."""
    if not name:
        raise usage("the name of a model is empty", "write . for the present folder")
    if name == "-":
        raise usage(
            "-: models are not read from standard input", "write it to a file, or ./- for that name"
        )
    return Path(name)


def parse_import(
    *,
    shapes: Sequence[str] | None = None,
    random_weights: int | None = None,
    scalar: str = "float32",
    dialect: str = "auto",
    strict: bool = False,
    limits: Sequence[str] | None = None,
    data: bool = True,
) -> ImportConfig:
    """The import options of a command, checked."""
    from nnefc.options.import_config import ImportOptions, import_config

    options = ImportOptions(
        shapes=parse_shapes(shapes),
        random_weights=random_weights,
        scalar=scalar,
        dialect=dialect,
        limits=parse_limits(limits),
    )
    return import_config(Path(), options, strict=strict, load_data=data)


def parse_limits(options: Sequence[str] | None) -> Limits:
    """`--limit NAME=VALUE` options applied to the defaults."""
    limits = Limits()
    names = [f.name for f in fields(Limits)]
    for option in options or ():
        name, _, text = option.partition("=")
        if name not in names:
            raise usage(f"--limit {option}: no limit {name!r}", f"one of {', '.join(names)}")
        try:
            value = int(text)
        except ValueError:
            value = 0
        if value <= 0:
            raise usage(f"--limit {option}: the value must be a positive integer")
        limits = replace(limits, **{name: value})
    return limits


def parse_shapes(options: Sequence[str] | None) -> dict[str, tuple[int, ...]] | None:
    """`--shape NAME=1,3,224,224` options by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for option in options or ():
        name, equals, text = option.partition("=")
        try:
            extents = tuple(int(item) for item in text.replace("x", ",").split(",") if item)
        except ValueError:
            equals = ""
            extents = ()
        if not equals or not name:
            raise usage(f"--shape {option}: not of the form NAME=1,3,224,224")
        shapes[name] = extents
    return shapes or None
