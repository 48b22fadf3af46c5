"""The line that tells a program without a terminal that kernels are compiled."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nnefc.cli.bench import parallel_calls
from nnefc.cli.support import printing
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.command_line import Cli

Step = tuple[int, int, str]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compilation takes long after 20 ms."""
    monkeypatch.setattr(printing, "_COMPILING_SECONDS", 0.02)


def told(
    steps: Sequence[Step | float], capsys: pytest.CaptureFixture[str], targets: Sequence[str] = ()
) -> str:
    """The text after some calls of `progress`; numbers are pauses in seconds."""
    with printing.compiling(targets) as advance:
        for step in steps:
            advance(*step) if isinstance(step, tuple) else time.sleep(step)
    return capsys.readouterr().err


def test_a_long_compilation_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [(3, 16, "convolution"), 0.1, (4, 16, "copy"), 0.1, (16, 16, "")]
    assert told(steps, capsys) == "compiling 13 kernels, once for this machine\n"
    assert told([(0, 1, "copy"), 0.1, (1, 1, "")], capsys).startswith("compiling 1 kernel,")
    assert not told([(16, 16, ""), 0.1], capsys), "all kernels were cached"


def test_a_short_compilation_is_not_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "_COMPILING_SECONDS", 5.0)
    assert not told([0.02, (3, 16, "convolution"), (16, 16, "")], capsys)
    monkeypatch.setattr(printing, "_COMPILING_SECONDS", 0.02)
    assert not told([0.1, (3, 16, "convolution"), (16, 16, ""), 0.1], capsys), "after slow passes"


def test_code_for_other_processors(capsys: pytest.CaptureFixture[str]) -> None:
    """Their number of kernels is known late; (0, 1, "") means that a process starts."""
    both = ["aarch64", "x86-64-v2"]
    steps = [(0, 1, "aarch64"), 0.1, (0, 3, "aarch64 copy"), 0.1, (3, 3, "aarch64")]
    assert told(steps, capsys, both) == (
        "compiling kernels for aarch64, x86-64-v2, once for this machine\n"
    )
    assert not told([(0, 1, ""), 0.1, (3, 3, "")], capsys, ["aarch64"]), "all were cached"


@pytest.mark.parametrize("options", [("-o", "y.nnefc"), ("--emit", "c", "-o", "c")], ids=str)
def test_cross_compilation_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str]
) -> None:
    """With `--dynamic` too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(printing, "_COMPILING_SECONDS", 0.0)
    document = Path("graph.nnef")
    document.write_text(
        "version 1.0;\nextension KHR_enable_fragment_definitions;\n"
        "extension tract_registry tract_core;\nextension tract_symbol S;\n"
        "graph g( x ) -> ( y )\n{ x = tract_core_external(shape = [S], datum_type = 'f32');"
        " y = exp(x); }\n"
    )
    dynamic = ("--dynamic",) if "--emit" in options else ()
    target = ("--target", "x86-64-v2")
    result = cli("compile", document, "--symbol", "S=3", *options, *target, *dynamic)
    assert result.status == 0, result.err
    assert "compiling kernels for x86-64-v2, once for this machine" in result.err


def test_calls_that_compile_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    advance = printing.compiling_in_calls()
    for total in (2, 5):
        advance(0, total, "copy")
        time.sleep(0.1)
        advance(total, total, "")
        time.sleep(0.05)
    assert capsys.readouterr().err.splitlines() == [
        "compiling 2 kernels, once for this machine",
        "compiling 5 kernels, once for this machine",
    ]


# -- measurements


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("command", ["bench", "profile"])
def test_measurements_are_told_on_terminals_only(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch, command: str, is_terminal: bool
) -> None:
    """A line is there before the measurement begins, and is removed."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    before: list[str] = []

    def recorded(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            before.append(shown.getvalue())
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(parallel_calls, "run_streams", recorded(parallel_calls.run_streams))
    monkeypatch.setattr(CompiledModel, "profile", recorded(CompiledModel.profile))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", shown)
        options = ("--random-weights", 1, "--duration", 0.02, "--threads", 1, "--json")
        more = ("--no-cold", "--warmup", 0) if command == "bench" else ()
        assert cli(command, small, *options, *more).status == 0
    text = "measuring 1 thread for 0.02 s" if command == "bench" else "profiling 1 thread for 0.02"
    assert [text in each for each in before] == [is_terminal]
    assert shown.getvalue().endswith("\x1b[2K") or not is_terminal
