"""Types of the options that several commands share, and the functions that parse them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.limits import Limits

if TYPE_CHECKING:
    from nnefc.options.import_config import ImportConfig


DIALECTS: Final = ("auto", "nnef", "tract")
"""Languages of documents."""


def choice(name: str, choices: Sequence[str], meaning: str, *, metavar: str = "") -> Any:
    """An option whose value is one of a few words, which shells complete."""
    return typer.Option(
        name,
        metavar=metavar or "|".join(choices),
        help=meaning,
        autocompletion=lambda: list(choices),
    )


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder or archive (.tar, .tgz, .tar.gz, .tar.bz2, .tar.xz, .zip) with graph.nnef "
        "in it, a graph.nnef, a file of ONNX (.onnx), TensorFlow Lite (.tflite) or PyTorch (.pt2), "
        "or an nnpackage.",
    ),
]
ModelOrArtifact = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder or archive (.tar, .tgz, .tar.gz, .tar.bz2, .tar.xz, .zip) with graph.nnef "
        "in it, a graph.nnef, a .onnx, .tflite or .pt2 file, or an artifact (.nnefc), which "
        "needs no compiler and takes no compile options. Loading an artifact runs the code in it.",
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

Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        "-b",
        metavar="N",
        min=1,
        help="Replace the first dimension of every external that --shape does not name.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        help="A .npy or .dat file or a picture (.png, .jpg, .bmp, .gif, .ppm, .webp) for one "
        "input, an .npz with inputs by name, or a folder of .npy and .dat files with their names, "
        "as compare --dump writes; - is standard input; repeatable. Pictures are "
        "resized, converted to the channels of the input (1: grey, 3: RGB, 4: RGBA), and scaled "
        "to 0..1; integer inputs get 0..255.",
    ),
]
RandomInputs = Annotated[
    int | None,
    typer.Option(metavar="SEED", min=0, help="Fill inputs without --input with random values."),
]
RandomWeights = Annotated[
    int | None,
    typer.Option(
        metavar="SEED", min=0, help="Fill variables that have no data with random values."
    ),
]
Scalar = Annotated[
    str,
    choice(
        "--scalar",
        ["float32", "float64"],
        "Type of scalars: float32 or float64.",
        metavar="TYPE",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", "-t", metavar="N", min=1, help="Threads to use (default: all CPUs)."),
]
Accuracy = Annotated[
    str,
    choice(
        "--accuracy",
        ["fast", "strict"],
        "fast: rounding errors of convolutions are up to 2e-4 of the largest result; "
        "strict: no Winograd convolutions, errors below 1e-5.",
    ),
]
Precision = Annotated[
    str,
    choice(
        "--precision",
        ["float32", "bfloat16", "float16"],
        "bfloat16, float16: round the operands of products to 16 bits, which is faster on "
        "processors with instructions for that (AVX512-BF16 and bf16 of ARM; fp16 of ARM); all "
        "else is computed in float32.",
    ),
]
NoCheckIndices = Annotated[
    bool,
    typer.Option(
        "--no-check-indices",
        help="For an index out of range, such as a token that the embedding does not have, use "
        "the nearest item; by default the call fails.",
    ),
]
StrictQuantization = Annotated[
    bool,
    typer.Option(
        "--strict-quantization",
        help="A layer of a quantized model that is computed in floats is an error; all such layers "
        "are listed with the reason.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Treat warnings as errors: NNEF 1.0.2 to the letter."),
]
Dialect = Annotated[
    str,
    choice(
        "--dialect",
        DIALECTS,
        "Read the document as NNEF 1.0 or as sonos/tract does; auto: as it declares.",
    ),
]
Duration = Annotated[float, typer.Option("--duration", help="Seconds to measure.")]
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
    """The error `input/option` for an option with a wrong value."""
    return NnefError.of("input/option", message, hint=hint)


def model_path(name: str) -> Path:
    """The path of a model as it was typed; raises NnefError for an empty name and for `-`."""
    if not name:
        raise usage("the path of the model is empty", "write . for the current folder")
    if name == "-":
        raise usage(
            "-: models are not read from standard input",
            "write it to a file; ./- is a file with that name",
        )
    return Path(name)


def parse_import(
    *,
    shapes: Sequence[str] | None = None,
    symbols: Sequence[str] | None = None,
    random_weights: int | None = None,
    scalar: str = "float32",
    dialect: str = "auto",
    strict: bool = False,
    limits: Sequence[str] | None = None,
    data: bool = True,
) -> ImportConfig:
    """Check the import options of a command; `data`: read the data of variables."""
    from nnefc.options.import_config import ImportOptions, import_config

    options = ImportOptions(
        shapes=parse_shapes(shapes),
        symbols=parse_symbols(symbols),
        random_weights=random_weights,
        scalar=scalar,
        dialect=dialect,
        limits=parse_limits(limits),
    )
    return import_config(Path(), options, strict=strict, load_data=data)


def parse_limits(options: Sequence[str] | None) -> Limits:
    """The default limits, changed by `--limit NAME=VALUE` options."""
    limits = Limits()
    names = [f.name for f in fields(Limits)]
    for option in options or ():
        name, _, text = option.partition("=")
        if name not in names:
            raise usage(f"--limit {option}: unknown limit {name!r}", f"one of {', '.join(names)}")
        try:
            value = int(text)
        except ValueError:
            value = 0
        if value <= 0:
            raise usage(f"--limit {option}: the value must be a positive integer")
        limits = replace(limits, **{name: value})
    return limits


def parse_shapes(options: Sequence[str] | None) -> dict[str, tuple[int, ...]] | None:
    """Shapes by name, from `--shape NAME=1,3,224,224` options; None without options."""
    shapes: dict[str, tuple[int, ...]] = {}
    for option in options or ():
        name, equals, text = option.partition("=")
        try:
            extents = tuple(int(item) for item in text.replace("x", ",").split(",") if item)
        except ValueError:
            equals = ""
            extents = ()
        if not equals or not name or not extents:
            raise usage(f"--shape {option}: expected NAME=EXTENTS, as in input=1,3,224,224")
        shapes[name] = extents
    return shapes or None


_MAX_DIGITS: Final = 18
"""Digits of the value of a symbol, which then has at most 63 bits."""


def parse_symbols(options: Sequence[str] | None) -> dict[str, int]:
    """Values of symbols by name, from `--symbol NAME=16` options; reports all errors at once."""
    values: dict[str, int] = {}
    problems: list[Diagnostic] = []
    for option in options or ():
        name, _, text = (part.strip() for part in option.partition("="))
        digits = text.removeprefix("-")
        if not name or not (digits.isascii() and digits.isdecimal()):
            message = f"--symbol {option}: expected NAME=VALUE with a whole number, as in S=16"
            problems += usage(message).errors
        elif len(digits) > _MAX_DIGITS:
            message = f"--symbol {option}: a value has at most {_MAX_DIGITS} digits"
            problems += usage(message).errors
        elif values.setdefault(name, int(text)) != int(text):
            message = f"--symbol {option}: {name} is {values[name]} already"
            problems += usage(message, f"leave out --symbol {name}={values[name]}").errors
    if problems:
        raise NnefError(problems)
    return values
