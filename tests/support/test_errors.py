"""Diagnostics: their order, their number, their text."""

from __future__ import annotations

import warnings

import pytest

from nnefc.support.errors import (
    Diagnostic,
    Diagnostics,
    NnefError,
    NnefWarning,
    Place,
    Step,
    collecting,
    warn,
)


def raised(diagnostics: Diagnostics) -> list[str]:
    with pytest.raises(NnefError) as caught:
        diagnostics.raise_errors()
    return [error.message for error in caught.value.errors]


def test_errors_are_sorted_by_file_and_place() -> None:
    diagnostics = Diagnostics()
    places = [Place("b", 3, 1), Place("a", 2, 1), Place("b", 1, 9), None, Place("b", 1, 2)]
    for i, place in enumerate(places):
        diagnostics.error("data/file", str(i), place)
    assert raised(diagnostics) == ["4", "2", "0", "1", "3"]


@pytest.mark.parametrize(("limit", "noun"), [(1, "error"), (3, "errors")])
def test_errors_up_to_the_limit_are_reported(limit: int, noun: str) -> None:
    diagnostics = Diagnostics(limit=limit)
    for i in range(limit):
        diagnostics.error("data/file", str(i), Place("a", 9 - i))
    assert len(raised(diagnostics)) == limit
    with pytest.raises(NnefError) as caught:
        diagnostics.error("data/file", "one more")
    *errors, stop = caught.value.errors
    assert [e.line for e in errors] == sorted(9 - i for i in range(limit))
    assert stop.message == f"more than {limit} {noun}; giving up"
    assert "--limit errors=N" in stop.hint


def chain(names: str) -> tuple[Step, ...]:
    return tuple(Step(name, Place("f", ord(name))) for name in names)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a", "a"),
        ("abc", "a b c"),
        ("aab", "a2 b"),
        ("abababc", "a3 b3 c"),
        ("abbbc", "a b3 c"),
        ("aaaagaaab", "a4 g a3 b"),
        ("abcabcaa", "a2 b2 c2 a2"),
        ("abaa", "a b a2"),
    ],
)
def test_repeated_steps_are_folded(names: str, expected: str) -> None:
    lines = str(Diagnostic("data/file", "message", chain=chain(names))).split("\n")[1:]
    found = [line.split("note: ")[1].replace(" (", "").replace(" times)", "") for line in lines]
    assert " ".join(found) == expected


def test_warnings_of_functions_without_diagnostics() -> None:
    finding = Diagnostic("data/padding", "message", severity="warning")
    with pytest.warns(NnefWarning, match="data/padding"):
        warn(finding)
    diagnostics = Diagnostics(strict=True)
    with warnings.catch_warnings(), collecting(diagnostics):
        warnings.simplefilter("error")
        warn(finding)
    assert [error.rule for error in diagnostics.errors] == ["data/padding"]
    assert not diagnostics.warnings
