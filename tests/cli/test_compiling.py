"""The line that tells a program without a terminal that kernels are compiled."""

from __future__ import annotations

import pytest

from nnefc.cli.support import printing


def told(steps: list[tuple[int, int, str]], capsys: pytest.CaptureFixture[str]) -> str:
    with printing.compiling() as advance:
        for step in steps:
            advance(*step)
    return capsys.readouterr().err


def test_a_long_compilation_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "_COMPILING_SECONDS", -1.0)
    steps = [(3, 16, "convolution"), (4, 16, "copy"), (16, 16, "")]
    assert told(steps, capsys) == "compiling 13 kernels, once for this machine\n"
    assert not told([(16, 16, "")], capsys), "all kernels were cached"
    assert not told([(13, 16, "copy"), (16, 16, "")], capsys), "these are few"


def test_a_short_compilation_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert not told([(3, 16, "convolution"), (16, 16, "")], capsys)
