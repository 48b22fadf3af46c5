"""Errors and warnings with `--json`: an object on standard output, the text on standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command_line import DIGITS, SMALL, Cli

COMMANDS: dict[str, tuple[object, ...]] = {
    "inspect": (),
    "run": ("--random-inputs", 1),
    "compare": (),
    "compile": (),
    "bench": ("--duration", 0.01, "--no-cold"),
    "profile": ("--duration", 0.01),
    "cache explain": (),
    "cache warm": (),
}
KEYS = {"severity", "rule", "message", "file", "line", "column", "hint", "chain"}


def errors_of(text: str) -> list[dict[str, Any]]:
    """The errors in the output of a command; they have all keys."""
    facts = json.loads(text)
    assert all(set(error) == KEYS for error in facts["errors"])
    return facts["errors"]


@pytest.mark.parametrize("command", COMMANDS)
def test_all_errors_of_a_document_are_listed(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(SMALL.replace("relu(conv1)", "rleu(conv1)").replace("[2, 3]", "[2, 4]"))
    result = cli(*command.split(), path, *COMMANDS[command], "--json")
    assert result.status == 1
    first, *_ = errors = errors_of(result.out)
    assert (first["file"], first["line"], first["column"]) == (str(path), 8, 13)
    assert first["severity"] == "error"
    assert "rleu" in first["message"]
    assert "relu" in first["hint"]
    assert all(error["message"] in result.err for error in errors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "Missing argument"),
        (("run", "a", "--foo"), "No such option"),
        (("runn",), "No such command"),
        (("demo", "--threads", "0"), "--threads"),
        (("cache", "none"), "No such command"),
    ],
)
def test_wrong_command_lines_are_listed(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli(*arguments, "--json")
    assert result.status == 2
    (error,) = errors_of(result.out)
    assert error["rule"] == "input/option"
    assert message in error["message"]
    assert error["hint"].endswith("--help")
    assert message in result.err
    assert cli(*arguments).out == ""


def test_warnings_are_listed_with_errors_and_results(cli: Cli, tmp_path: Path) -> None:
    """The note about a conversion, then an error of the same command."""
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((1, 1, 8, 8), np.float64))
    common = ("compare", DIGITS, "-i", path, "--json")
    facts = json.loads(cli(*common).out)
    (note,) = facts["warnings"]
    assert note["severity"] == "note"
    assert "converted from float64" in note["message"]
    np.save(path, np.zeros((1, 1, 9, 8), np.float64))
    failed = json.loads(cli(*common).out)
    assert [error["rule"] for error in failed["errors"]] == ["input/shape"]
    assert "converted from float64" in failed["warnings"][0]["message"]
    assert "warnings" not in json.loads(cli("compare", DIGITS, "--json").out)
    names = json.loads(cli("run", DIGITS, "-i", path.with_name("y.npy"), "--json").out)
    assert list(names) == ["errors"]


def test_outputs_of_run_are_not_mixed_with_warnings(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float64))
    result = cli("run", DIGITS, "-i", tmp_path / "x.npy", "--json")
    assert list(json.loads(result.out)) == ["probabilities"]
    assert "converted from float64" in result.err


def test_running_out_of_memory_is_listed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nnefc.cli.inspect.command.read", fail)
    (error,) = errors_of(cli("inspect", DIGITS, "--json").out)
    assert error["rule"] == "limit/memory"
