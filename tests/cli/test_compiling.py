"""The line that tells a program without a terminal that kernels are compiled."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nnefc.cli.bench import parallel_calls
from nnefc.cli.support import printing
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.command_line import Cli

LATE = "the time after which a compilation is told"
Step = tuple[int, int, str] | str


class ManualTimer:
    """A timer that ends when a test says so."""

    latest: ManualTimer | None = None
    ends_at_once = False

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        assert seconds == printing._COMPILING_SECONDS  # pyright: ignore[reportPrivateUsage]
        self.function = function
        self.daemon = False

    def start(self) -> None:
        assert self.daemon, "it does not keep the process alive"
        ManualTimer.latest = self
        if self.ends_at_once:
            self.function()

    def cancel(self) -> None:
        ManualTimer.latest = None


@pytest.fixture(autouse=True)
def _timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing.threading, "Timer", ManualTimer)
    monkeypatch.setattr(ManualTimer, "latest", None)


def told(
    steps: Sequence[Step], capsys: pytest.CaptureFixture[str], targets: Sequence[str] = ()
) -> str:
    """The text after some calls of `progress`, and after `LATE` moments."""
    with printing.compiling(targets) as advance:
        for step in steps:
            if isinstance(step, tuple):
                advance(*step)
            elif ManualTimer.latest is not None:
                ManualTimer.latest.function()
    assert ManualTimer.latest is None, "cancelled"
    return capsys.readouterr().err


def test_a_long_compilation_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [(3, 16, "convolution"), (4, 16, "copy"), LATE, (5, 16, "copy"), LATE, (16, 16, "")]
    assert told(steps, capsys) == "compiling 13 kernels, once for this machine\n"
    assert told([(0, 1, "copy"), LATE, (1, 1, "")], capsys).startswith("compiling 1 kernel,")
    steps = [(0, 2, "copy"), (2, 2, ""), LATE, (0, 3, "copy"), (3, 3, "")]
    assert told(steps, capsys).startswith("compiling 3 kernels,"), "between two targets"


def test_a_short_compilation_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert not told([(3, 16, "convolution"), (16, 16, ""), LATE], capsys)
    assert not told([LATE, (16, 16, ""), LATE], capsys), "all kernels were cached"


def test_code_for_other_processors(capsys: pytest.CaptureFixture[str]) -> None:
    """Their number of kernels is known late; (0, 1, "") means that a process starts."""
    both = ["aarch64", "x86-64-v2"]
    steps = [(0, 1, "aarch64"), LATE, (0, 3, "aarch64 copy"), LATE, (3, 3, "aarch64")]
    assert told(steps, capsys, both) == (
        "compiling kernels for aarch64, x86-64-v2, once for this machine\n"
    )
    assert not told([(0, 1, ""), LATE, (3, 3, "")], capsys, ["aarch64"]), "all were cached"


@pytest.mark.parametrize(
    "options",
    [("-o", "y.nnefc"), pytest.param(("--emit", "c", "-o", "c"), marks=pytest.mark.slow)],
    ids=str,
)
def test_cross_compilation_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str]
) -> None:
    """With `--dynamic` too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ManualTimer, "ends_at_once", True)
    document = Path("graph.nnef")
    document.write_text(
        "version 1.0;\nextension KHR_enable_fragment_definitions;\n"
        "extension tract_registry tract_core;\nextension tract_symbol S;\n"
        "graph g( x ) -> ( y )\n{ x = tract_core_external(shape = [S], datum_type = 'f32');"
        " y = exp(x); }\n"
    )
    dynamic = () if "--emit" in options else ("--dynamic",)
    target = ("--target", "x86-64-v2")
    result = cli("compile", document, "--symbol", "S=3", *options, *target, *dynamic)
    assert result.status == 0, result.err
    assert "compiling kernels for x86-64-v2, once for this machine" in result.err


def test_calls_that_compile_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ManualTimer, "ends_at_once", True)
    advance = printing.compiling_in_calls()
    for total in (2, 5):
        advance(0, total, "copy")
        advance(total, total, "")
        assert ManualTimer.latest is None
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
