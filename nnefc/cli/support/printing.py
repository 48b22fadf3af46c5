"""How commands print: diagnostics, tables, JSON, quantities, progress."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import typer

from nnefc.formats.watch import watched
from nnefc.support.errors import Diagnostic, Diagnostics, collecting

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to standard error, one after the other."""
    for diagnostic in diagnostics:
        print(diagnostic, file=sys.stderr)


@contextmanager
def reported_warnings() -> Generator[None]:
    """Warnings from inside go to standard error as diagnostics do, at the end."""
    diagnostics = Diagnostics()
    try:
        with collecting(diagnostics):
            yield
    finally:
        report(diagnostics.warnings)


@contextmanager
def reported() -> Generator[Diagnostics]:
    """Collects warnings, which go to standard error at the end."""
    diagnostics = Diagnostics()
    try:
        yield diagnostics
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
_MANY = 1000
"""Rows of a table above which it is laid out here."""


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

    What is still too wide is left to the terminal, which breaks its lines; so are tables of many
    rows, of which rich lays out a thousand in a second.
    """
    from rich.measure import Measurement

    if view.row_count > _MANY:
        out.file.writelines(f"{line}\n" for line in plain_lines(view))
        return
    most = Measurement.get(out, out.options.update(max_width=100_000), view).maximum
    for column in view.columns:
        if not (column.no_wrap or out.soft_wrap):
            longest = max((len(str(cell)) for cell in column.cells), default=0)
            most -= max(0, longest - _FOLDED)
    width = out.width
    out.width = max(width, most)
    out.print(view)
    out.width = width


def plain_lines(view: Table) -> Iterator[str]:
    """A table as it is printed, with nothing folded."""
    headers = [str(column.header) for column in view.columns]
    rows = zip(*(map(str, column.cells) for column in view.columns), strict=True)
    lines = [headers, *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    right = [column.justify == "right" for column in view.columns]

    def line(cells: Iterable[str]) -> str:
        each = zip(cells, widths, right, strict=True)
        return f" {'   '.join(cell.rjust(n) if r else cell.ljust(n) for cell, n, r in each)} "

    empty = line([""] * len(widths))
    yield empty
    yield line(headers)
    yield f" {'─' * (len(empty) - 2)} "
    yield from map(line, lines[1:])
    yield empty


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
def progress(description: str, *, late: bool = False) -> Generator[Callable[[int, int, str], None]]:
    """A progress bar on standard error, if that is a terminal.

    Yields `advance(done, total, label)`.  `late`: there is none before that is called first, and it
    shows no numbers but a percentage.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    with ExitStack() as shown:
        bar = None if late else shown.enter_context(_bar(description, late))

        def advance(done: int, total: int, label: str) -> None:
            nonlocal bar
            bar = bar or shown.enter_context(_bar(description, late))
            text = f"{description} {label}"
            bar.update(bar.task_ids[0], completed=done, total=total, description=text)

        yield advance


def _bar(description: str, percentage: bool) -> Progress:
    """A progress bar on standard error for one task, which goes when it ends."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
    )

    numbers = TaskProgressColumn() if percentage else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), numbers)
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    bar.add_task(description, total=None)
    return bar


@contextmanager
def reading() -> Generator[None]:
    """Inside, a progress bar shows how far models are read, if that takes long."""
    with progress("reading", late=True) as advance, watched(advance):
        yield
