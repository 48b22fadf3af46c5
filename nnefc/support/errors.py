"""Diagnostics: errors, warnings and notes about documents, files and arguments.

Every failure that a user can cause is an `NnefError`, which carries all `Diagnostic`s, not only the
first.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

Severity = Literal["error", "warning", "note"]


class Place(NamedTuple):
    """A position in a file; `line` and `column` count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0
    node: str = ""
    """The node, in a file without lines."""

    def __str__(self) -> str:
        return f"{self.position}: {self.node}" if self.node else self.position

    @property
    def position(self) -> str:
        """The file, with line and column where they are known."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Step(NamedTuple):
    """An invocation in the chain that led to a diagnostic."""

    what: str
    place: Place

    def __str__(self) -> str:
        return f"{self.place}: note: {self.what}"


class Diagnostic(NamedTuple):
    """An error, a warning or a note.

    `rule` is a short stable name, `family/detail`; families are container, syntax, version,
    extension, definition, invocation, type, identifier, argument, operator, tract, onnx, tflite,
    torch, openvx, custom, quantization, data, flatten, input, artifact, limit and internal.
    `docs/errors.md` lists all rules.  `message` names the offending values, `hint` suggests a
    correction.  `chain` lists the invocations that led to it, innermost first.
    """

    rule: str
    message: str
    place: Place | None = None
    severity: Severity = "error"
    chain: tuple[Step, ...] = ()
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.place.position}: " if self.place else ""
        lines = [f"{where}{self.severity}: {self.text} [{self.rule}]"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        lines += [f"  {step}" for step in _folded(self.chain)]
        return escaped("\n".join(lines))

    @property
    def text(self) -> str:
        """The message, behind the node of `place` if it has one."""
        node = self.place.node if self.place else ""
        return f"{node}: {self.message}" if node else self.message

    @property
    def file(self) -> str | None:
        """The file of `place`; None without a place."""
        return self.place.file if self.place else None

    @property
    def line(self) -> int:
        """The line of `place`, from 1; 0 without a place."""
        return self.place.line if self.place else 0

    @property
    def column(self) -> int:
        """The column of `place`, from 1; 0 without a place."""
        return self.place.column if self.place else 0


def escaped(text: str) -> str:
    """Text with control characters written out, because names of models may contain them."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def _folded(chain: tuple[Step, ...]) -> list[str]:
    """The lines of a chain; repeated steps and cycles are printed once, with their number."""
    lines: list[str] = []
    at = 0
    while at < len(chain):
        best, times = 1, 1
        for period in range(1, (len(chain) - at) // 2 + 1):
            cycle = chain[at : at + period]
            count = 1
            while chain[at + count * period : at + (count + 1) * period] == cycle:
                count += 1
            if count > 1 and count * period > best * times:
                best, times = period, count
        often = f" ({times} times)" if times > 1 else ""
        lines += [f"{step}{often}" for step in chain[at : at + best]]
        at += best * times
    return lines


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics sorted by file, in order of first occurrence, then by line and column."""
    ordered = list(diagnostics)
    files = {file: i for i, file in enumerate(dict.fromkeys(d.file for d in ordered))}
    return sorted(ordered, key=lambda d: (files[d.file], d.line, d.column))


class NnefError(Exception):
    """A document, file or argument cannot be used; `errors` has all reasons."""

    def __init__(self, errors: Iterable[Diagnostic]) -> None:
        self.errors: tuple[Diagnostic, ...] = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))

    @classmethod
    def of(cls, rule: str, message: str, place: Place | None = None, hint: str = "") -> NnefError:
        """An error with a single diagnostic."""
        return cls([Diagnostic(rule, message, place, hint=hint)])

    def __reduce__(self) -> tuple[type[NnefError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.errors,)


class NnefWarning(UserWarning):
    """The category of Python warnings whose text is a `Diagnostic` of severity warning."""


_collector: ContextVar[Diagnostics | None] = ContextVar("collector", default=None)


@contextmanager
def collecting(diagnostics: Diagnostics) -> Generator[None]:
    """Within the block, `warn` adds to `diagnostics`."""
    token = _collector.set(diagnostics)
    try:
        yield
    finally:
        _collector.reset(token)


def warn(diagnostic: Diagnostic) -> None:
    """Add a warning to the `Diagnostics` of `collecting`, or issue a Python warning outside it."""
    collector = _collector.get()
    if collector is None:
        warn_python(str(diagnostic))
    else:
        collector.add(diagnostic)


def warn_python(message: str) -> None:
    """Issue a Python warning at the line of the caller's code that entered this package."""
    from inspect import currentframe  # `inspect` takes a third of the time of `import nnefc`

    levels = 1
    frame = currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
        levels += 1
    warnings.warn(message, NnefWarning, stacklevel=levels)


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == __name__.partition(".")[0]


class Diagnostics:
    """A collector of errors, warnings and notes."""

    def __init__(
        self, *, strict: bool = False, limit: int = 100, fatal: Collection[str] = ()
    ) -> None:
        """`strict`: warnings count as errors; `fatal`: so do those of these rules, in any case.

        `limit`: the most errors; one more raises.
        """
        self.strict = strict
        self.fatal = fatal
        self.limit = limit
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._known: set[Diagnostic] = set()

    def add(self, diagnostic: Diagnostic) -> None:
        """Add `diagnostic`, ignoring duplicates; NnefError if the errors exceed `limit`."""
        if diagnostic.severity == "warning" and (self.strict or diagnostic.rule in self.fatal):
            diagnostic = diagnostic._replace(severity="error")
        if diagnostic in self._known:
            return
        self._known.add(diagnostic)
        if diagnostic.severity != "error":
            self.warnings.append(diagnostic)
            return
        if len(self.errors) < self.limit:
            self.errors.append(diagnostic)
            return
        noun = "error" if self.limit == 1 else "errors"
        stop = Diagnostic(
            "limit/errors",
            f"more than {self.limit} {noun}; giving up",
            hint="correct these first; to see more, pass --limit errors=N or Limits(errors=N)",
        )
        raise NnefError([*in_order(self.errors), stop])

    def error(
        self,
        rule: str,
        message: str,
        place: Place | None = None,
        *,
        hint: str = "",
        chain: tuple[Step, ...] = (),
    ) -> None:
        self.add(Diagnostic(rule, message, place, "error", chain, hint))

    def warn(self, rule: str, message: str, place: Place | None = None, *, hint: str = "") -> None:
        self.add(Diagnostic(rule, message, place, "warning", (), hint))

    def raise_errors(self) -> None:
        """Raise NnefError with all errors, sorted by position, if any."""
        if self.errors:
            raise NnefError(in_order(self.errors))
