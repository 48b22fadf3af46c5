"""Errors and warnings of a command: text on standard error, and records for `--json`."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place, collecting

_reported: list[Diagnostic] = []
"""The warnings and notes of this command, for its JSON."""


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to standard error."""
    for diagnostic in diagnostics:
        print(diagnostic, file=sys.stderr)
        if diagnostic.severity != "error":
            _reported.append(diagnostic)


def forget_reported() -> None:
    """Begin a command: nothing is reported yet."""
    _reported.clear()


def reported_records() -> list[dict[str, Any]]:
    """The `record` of each warning and note that this command has reported."""
    return list(map(record, _reported))


class _Reported(Diagnostics):
    """A collector that prints each warning when it is added."""

    def add(self, diagnostic: Diagnostic) -> None:
        before = len(self.warnings)
        super().add(diagnostic)
        report(self.warnings[before:])


def reported_warnings() -> AbstractContextManager[None]:
    """Within the block, warnings are printed to standard error as diagnostics, each once.

    Threads print theirs as Python does, unless they run in a copy of the context.
    """
    return collecting(_Reported())


@contextmanager
def naming_file(model: str) -> Generator[None]:
    """Within the block, errors that are about no place of the model name its file."""
    try:
        yield
    except NnefError as error:
        place = Place(model)
        raise NnefError(each._replace(place=each.place or place) for each in error.errors) from None


@contextmanager
def reported(diagnostics: Diagnostics | None = None) -> Generator[Diagnostics]:
    """Yield a collector whose warnings are printed to standard error at the end."""
    diagnostics = diagnostics or Diagnostics()
    try:
        yield diagnostics
    finally:
        report(diagnostics.warnings)


def record(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic for JSON; `line` and `column` are 0 and `file` is None where unknown."""
    return {
        "severity": diagnostic.severity,
        "rule": diagnostic.rule,
        "message": diagnostic.text,
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "hint": diagnostic.hint,
        "chain": [
            {"what": s.what, "file": s.place.file, "line": s.place.line, "column": s.place.column}
            for s in diagnostic.chain
        ],
    }
