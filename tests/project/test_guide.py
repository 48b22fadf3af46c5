"""The snippets of the guide run, one after the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide.md").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "digits" / "digits.nnef.tgz", tmp_path)
    shutil.copytree(ROOT / "examples" / "lstm", tmp_path / "lstm")
    scope: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", GUIDE, re.S):
        exec(compile(snippet, "guide.md", "exec"), scope)
    try:
        (document,) = re.findall(r"```\n(version 1\.0;.*?)```", GUIDE, re.S)
        (tmp_path / "custom.nnef").write_text(document)
        nnefc, np = scope["nnefc"], scope["np"]
        x = np.linspace(-2, 2, 16, dtype=np.float32)[None]
        y = nnefc.compile(tmp_path / "custom.nnef")(x)
        np.testing.assert_allclose(y, x / (1 + np.exp(-1.5 * x)), rtol=1e-5)
        assert (scope["a"] == 1).all()
        assert scope["y"].shape == (1, 10)
        assert (tmp_path / "lstm.tgz").exists()
    finally:
        from nnefc.ops.custom import unregister

        unregister("swish")
