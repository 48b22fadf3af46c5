"""What the commands share: options, tables, messages, inputs."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.errors import Diagnostic, Diagnostics, NnefError, collecting
from nnefc.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console
    from rich.table import Table

    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Hook
    from nnefc.runtime.model import CompiledModel

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


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to standard error, one after the other."""
    for diagnostic in diagnostics:
        print(diagnostic, file=sys.stderr)


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


def load(
    model: str | Path,
    *,
    shapes: Sequence[str] | None = None,
    random_weights: int | None = None,
    scalar: str = "float32",
    strict: bool = False,
    limits: Sequence[str] | None = None,
    data: bool = True,
    quiet: bool = False,
) -> Graph:
    """Import a model as the options say; warnings go to standard error, unless `quiet`."""
    from nnefc.api import import_with

    parsed = parse_limits(limits)
    diagnostics = Diagnostics(strict=strict, limit=parsed.errors)
    try:
        return import_with(
            model_path(model) if isinstance(model, str) else model,
            diagnostics,
            shapes=parse_shapes(shapes),
            random_weights=random_weights,
            scalar=scalar,
            limits=parsed,
            load_data=data,
        )
    finally:
        if not quiet:
            report(diagnostics.warnings)


def compile_graph(
    graph: Graph,
    threads: int | None = None,
    accuracy: str = "fast",
    *,
    methods: Mapping[str, str] | None = None,
    hook: Hook | None = None,
) -> CompiledModel:
    """Compile; progress is shown on standard error.  `methods`, `hook`: see `compile_with`."""
    from nnefc.api import compile_with

    with reported_warnings(), progress("compiling") as advance:
        compiled = compile_with(
            graph,
            threads=threads,
            progress=advance,
            accuracy=accuracy,
            methods=methods,
            hook=hook,
        )
    note_threads(compiled, threads)
    return compiled


def note_threads(compiled: CompiledModel, wanted: int | None) -> None:
    """Say so if a model uses fewer threads than `--threads` asks for."""
    if wanted is not None and compiled.threads < wanted:
        most = f"{count(compiled.threads, 'thread')} used, the most there can be"
        report([Diagnostic("input/threads", f"--threads {wanted}: {most}", severity="note")])


@contextmanager
def reported_warnings() -> Generator[None]:
    """Warnings from inside go to standard error as diagnostics do, at the end."""
    diagnostics = Diagnostics()
    try:
        with collecting(diagnostics):
            yield
    finally:
        report(diagnostics.warnings)


def console(*, stderr: bool = False) -> Console:
    """A console that neither wraps nor colours what is piped elsewhere.

    Text is printed as it is: names and shapes in square brackets are no markup.
    """
    from rich.console import Console

    plain = not (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        soft_wrap=plain,
        markup=False,
        emoji=False,
        highlight=False,
        width=200 if plain else None,
    )


_FOLDED = 24
"""Characters that a column is folded to at the narrowest."""


def table(*columns: str, numeric: Iterable[str] = (), fold: Iterable[str] = ()) -> Table:
    """An empty table; numeric columns are aligned to the right, those in `fold` may be folded."""
    from rich import box
    from rich.table import Table

    numeric, fold = set(numeric), set(fold)
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        out.add_column(
            column,
            justify="right" if column in numeric else "left",
            overflow="fold",
            no_wrap=column not in fold,
        )
    return out


def print_table(out: Console, view: Table) -> None:
    """Print a table whole: on a narrow terminal some columns are folded, no cell is cut off.

    What is still too wide is left to the terminal, which breaks its lines.
    """
    from rich.measure import Measurement

    most = Measurement.get(out, out.options.update(max_width=100_000), view).maximum
    for column in view.columns:
        if not (column.no_wrap or out.soft_wrap):
            longest = max((len(str(cell)) for cell in column.cells), default=0)
            most -= max(0, longest - _FOLDED)
    width = out.width
    out.width = max(width, most)
    out.print(view)
    out.width = width


def print_json(value: Any) -> None:
    """Print JSON; what JSON cannot say (NaN, infinities) becomes null."""
    import json

    typer.echo(json.dumps(_finite(value), indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def quantity(number: float, unit: str = "") -> str:
    """A number with a decimal prefix: 1.23 M."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(number) < 1000 or prefix == "T":
            digits = f"{number:.0f}" if prefix == "" else f"{number:.3g}"
            return f"{digits} {prefix}{unit}".strip()
        number /= 1000
    raise AssertionError


def count(number: int, noun: str, plural: str = "") -> str:
    """1 operation, 2 operations."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(nbytes: float) -> str:
    """Bytes with a binary prefix: 1.5 MiB."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or prefix == "GiB":
            return f"{nbytes:.0f} B" if prefix == "B" else f"{nbytes:.4g} {prefix}"
        nbytes /= 1024
    raise AssertionError


@contextmanager
def progress(description: str) -> Generator[Callable[[int, int, str], None]]:
    """A progress bar on standard error, if that is a terminal and the work is long.

    Yields `advance(done, total, label)`.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def advance(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{description} {label}")

        yield advance
