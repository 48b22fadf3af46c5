"""docs/tract.md: its example runs, and its list of registries is complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tract.md").read_text()


def test_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (document,) = re.findall(r"```\n(version 1\.0;.*?)```", PAGE, re.S)
    (tmp_path / "running.nnef").write_text(document)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    scope: dict[str, Any] = {}
    exec(compile(snippet, "tract.md", "exec"), scope)
    assert f"print(model)  # {scope['model']!r}\n" in snippet
    np.testing.assert_array_equal(scope["y"][0, :, 0], np.arange(1, 6) / 2)
    np.testing.assert_array_equal(scope["total"], np.full((1, 4), 5))
    assert scope["fixed"].inputs[0].shape == (1, 3, 4)


def test_list_of_registries_is_complete() -> None:
    from nnefc.frontends.tract.registry import REGISTRIES

    (listed,) = re.findall(r"- \*\*Registries\*\*: (.*?)\(also", PAGE, re.S)
    assert tuple(re.findall(r"`(\w+)`", listed)) == REGISTRIES[1:]
