"""The examples of docs/openvx.md run, and print what their comments say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "openvx.md"


def printed(example: str) -> list[str]:
    """What the comments behind calls of `print`, or below them, say."""
    behind = r"^ *print\(.*\)  # (.*)$"
    return re.findall(rf"{behind}|^# (.*)$", example, re.M)


@pytest.mark.slow
def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    scope: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), scope)
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["".join(each) for each in printed(example)]
    assert len(examples) == 4
    assert Path("digits", "digits_openvx.c").exists()
    assert Path("layers", "layers_openvx.c").exists()
