"""Print diagnostics, tables, JSON, quantities and progress bars."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import typer

from nnefc.cli.support.diagnostics import record, reported_records
from nnefc.formats.read_progress import reporting_to
from nnefc.support.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Column, Table

    from nnefc.support.errors import Diagnostic
    from nnefc.support.progress import Progress as Advance


def console(*, stderr: bool = False) -> Console:
    """A console that neither wraps nor colours output to a file or pipe.

    Text is printed verbatim, but for control characters, which are escaped: names and shapes in
    square brackets are no markup.
    """
    from nnefc.cli.support.safe_console import SafeConsole

    plain = not (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(
        stderr=stderr,
        soft_wrap=plain,
        markup=False,
        emoji=False,
        highlight=False,
        width=200 if plain else None,
    )


_MIN_FOLDED_WIDTH = 24
"""The least width of a column that is folded, in characters."""
_MIN_NAME_WIDTH = 12
"""The least width to which a column of text is shortened, in characters."""
_MAX_RICH_ROWS = 1000
"""Larger tables are laid out by `plain_lines`: rich takes a second for each thousand rows."""


def table(*columns: str, numeric: Iterable[str] = (), fold: Iterable[str] = ()) -> Table:
    """An empty table; `numeric` columns are right-aligned, those in `fold` may be folded."""
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


def print_table(out: Console, view: Table, optional: Sequence[str] = ()) -> None:
    """Print a table.

    A terminal that is too narrow folds some columns, leaves out `optional` ones, the first one
    first, and shortens long names in the middle.  Figures are never cut off; the terminal wraps
    lines that are still too wide, and those of tables with many rows.
    """
    for column in view.columns:
        column._cells = [escaped(cell) for cell in _texts(column)]  # pyright: ignore[reportPrivateUsage]
    if view.row_count > _MAX_RICH_ROWS:
        out.file.writelines(f"{line}\n" for line in plain_lines(view))
        return
    left_out: list[str] = []
    needed, width = _needed_width(out, view), out.width
    if not out.soft_wrap:
        for title in optional:
            if needed <= width:
                break
            _remove_column(view, title)
            left_out.append(title)
            needed = _needed_width(out, view)
        _shorten_names(view, needed - width)
        needed = _needed_width(out, view)
    out.width = max(width, needed)
    out.print(view)
    out.width = width
    if left_out:
        out.print(f"a wider terminal, a pipe and --json also show: {', '.join(left_out)}")


def _remove_column(view: Table, title: str) -> None:
    view.columns = [column for column in view.columns if column.header != title]
    for i, column in enumerate(view.columns):
        column._index = i  # pyright: ignore[reportPrivateUsage] (rich pads the last one otherwise)


def _needed_width(out: Console, view: Table) -> int:
    """The least width of a table, in which columns may be folded."""
    from rich.measure import Measurement

    needed = Measurement.get(out, out.options.update(max_width=100_000), view).maximum
    for column in view.columns:
        if not (column.no_wrap or out.soft_wrap):
            longest = max((len(str(cell)) for cell in column.cells), default=0)
            needed -= max(0, longest - _MIN_FOLDED_WIDTH)
    return needed


def _shorten_names(view: Table, excess: int) -> None:
    """Shorten cells of columns of text, the widest first, by `excess` characters if possible."""
    saved = 0
    texts = [column for column in view.columns if column.no_wrap and column.justify == "left"]
    while excess > saved and texts:
        longest = {id(column): max(map(len, _texts(column)), default=0) for column in texts}
        column = max(texts, key=lambda column: longest[id(column)])
        before = longest[id(column)]
        size = max(_MIN_NAME_WIDTH, len(str(column.header)), before - (excess - saved))
        others = [n for key, n in longest.items() if key != id(column)]
        size = max(size, min(before - 1, max(others, default=0)))  # the widest column first
        if size >= before:
            break
        column._cells = [shortened(text, size) for text in _texts(column)]  # pyright: ignore[reportPrivateUsage]
        saved += before - size


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in column.cells]


def shortened(text: str, size: int) -> str:
    """`text` with an ellipsis in the middle if it has more than `size` characters."""
    if len(text) <= size:
        return text
    tail = (size - 1) // 2
    return f"{text[: size - 1 - tail]}…{text[len(text) - tail :]}"


def plain_lines(view: Table) -> Iterator[str]:
    """The lines of a table as rich prints it, with no column folded."""
    headers = [str(column.header) for column in view.columns]
    rows = zip(*(map(str, column.cells) for column in view.columns), strict=True)
    lines = [headers, *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    right = [column.justify == "right" for column in view.columns]

    def line(cells: Iterable[str]) -> str:
        columns = zip(cells, widths, right, strict=True)
        return f" {'   '.join(cell.rjust(n) if r else cell.ljust(n) for cell, n, r in columns)} "

    empty = line([""] * len(widths))
    yield empty
    yield line(headers)
    yield f" {'─' * (len(empty) - 2)} "
    yield from map(line, lines[1:])
    yield empty


def print_json(value: Any, *, named: bool = False) -> None:
    """Print JSON; NaN and infinities become null.

    An object also gets the warnings of the command, if any, unless its keys are names of a model
    (`named`).
    """
    import json

    if isinstance(value, dict) and not named and (warnings := reported_records()):
        value = {**cast(dict[str, Any], value), "warnings": warnings}
    typer.echo(json.dumps(json_value(value), indent=2))


def print_errors(errors: Sequence[Diagnostic]) -> None:
    """Print the errors of a command as JSON, with its warnings, if it was called with --json."""
    if "--json" in sys.argv[1:]:
        print_json({"errors": list(map(record, errors))})
        sys.stdout.flush()


def json_value(value: Any) -> Any:
    """`value` with null in place of NaN and infinities, and with text as keys."""
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {str(k): json_value(v) for k, v in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [json_value(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
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


def abbreviate(text: str, length: int = 72) -> str:
    """A text of at most `length` characters; a longer one is cut off, with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def size(nbytes: float) -> str:
    """Bytes with a binary prefix: 1.5 MiB."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or prefix == "GiB":
            return f"{nbytes:.0f} B" if prefix == "B" else f"{nbytes:.4g} {prefix}"
        nbytes /= 1024
    raise AssertionError


@contextmanager
def progress(description: str, *, late: bool = False) -> Generator[Advance]:
    """Yield `advance(done, total, label)`, which moves a progress bar on standard error.

    Without a terminal there is no bar.  `late`: the bar appears with the first call, and shows a
    percentage instead of numbers.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    with ExitStack() as stack:
        bar = None if late else stack.enter_context(_bar(description, late))

        def advance(done: int, total: int, label: str) -> None:
            nonlocal bar
            bar = bar or stack.enter_context(_bar(description, late))
            text = escaped(f"{description} {label}")
            bar.update(bar.task_ids[0], completed=done, total=total, description=text)

        yield advance


def _bar(description: str, percentage: bool) -> Progress:
    """A progress bar on standard error for one task; it disappears at the end."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
    )

    numbers = TaskProgressColumn() if percentage else MofNCompleteColumn()
    text = TextColumn("{task.description}", markup=False)  # names may look like markup
    columns = (text, BarColumn(), numbers)
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    bar.add_task(description, total=None)
    return bar


_COMPILING_SECONDS = 1.0
"""Seconds of compiling after which a program without a terminal says so."""


class _Notice:
    """Tells once on standard error that kernels are compiled, if that takes long."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._kernels = 0
        self._is_active = self._is_due = self._is_told = False
        self._timer: threading.Timer | None = None

    def advance(self, done: int, total: int, label: str) -> None:
        """The `progress` of compiling; a label names a kernel, an empty one is the end."""
        self._kernels = max(self._kernels, total - done)
        self._is_active = done < total and bool(label) and label not in self._targets
        if self._is_active and self._timer is None:  # a single kernel may take long
            self._timer = threading.Timer(_COMPILING_SECONDS, self._tell_when_due)
            self._timer.daemon = True
            self._timer.start()
        if self._is_due:
            self._tell()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell_when_due(self) -> None:
        self._is_due = True
        self._tell()

    def _tell(self) -> None:
        if not self._is_active or self._is_told:
            return
        self._is_told = True
        targets = ", ".join(self._targets)
        what = f"kernels for {targets}" if targets else count(self._kernels, "kernel")
        print(f"compiling {what}, once for this machine", file=sys.stderr, flush=True)


@contextmanager
def compiling(targets: Sequence[str] = ()) -> Generator[Advance]:
    """The `progress` of compiling kernels; without a terminal, one line if it takes long.

    The line tells the number of kernels, or the names of `targets`: code for other processors is
    made by processes that count their own.
    """
    if sys.stderr.isatty():
        with progress("compiling") as advance:
            yield advance
        return
    notice = _Notice(targets)
    try:
        yield notice.advance
    finally:
        notice.end()


def compiling_in_calls() -> Advance:
    """The `progress` of a model that compiles kernels in its calls, each as `compiling` shows it.

    A bar that an error or an interrupt leaves is removed when the process ends.
    """
    stack = ExitStack()
    show: Advance | None = None

    def advance(done: int, total: int, label: str) -> None:
        nonlocal show
        if show is None and label:
            show = stack.enter_context(compiling())
        if show is not None:
            show(done, total, label)
        if not label:
            show = None
            stack.close()

    atexit.register(stack.close)
    return advance


@contextmanager
def status(text: str) -> Generator[None]:
    """Show a line on a terminal while the body measures something.

    It does not move: drawing it again would take time from what is measured.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.live import Live
    from rich.text import Text

    shown = Text(escaped(text))
    with Live(shown, console=console(stderr=True), auto_refresh=False, transient=True):
        yield


@contextmanager
def reading() -> Generator[None]:
    """Show a progress bar while the body reads a model, if that takes long."""
    with progress("reading", late=True) as advance, reporting_to(advance):
        yield
