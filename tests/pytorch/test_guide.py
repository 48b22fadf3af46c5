"""The snippets and examples of the page about PyTorch run."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_to_nnef", reason="the exporter is not installed")

ROOT = Path(__file__).resolve().parents[2]
PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("pytorch", "torch_to_nnef")}
SMALL = {
    "vision_transformer": ("--layers", "1", "--seconds", "0"),
    "text_classifier": ("--layers", "1", "--seconds", "0"),
    "decoder": ("--layers", "1", "--tokens", "3"),
}


def test_snippets_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "guide"}
    for snippet in re.findall(r"```python\n(.*?)```", PAGES["pytorch"].read_text(), re.S):
        exec(compile(snippet, "pytorch.md", "exec"), scope)
    torch, network, x = scope["torch"], scope["network"], scope["x"]
    with torch.no_grad():
        wanted = network(x).numpy()
    np.testing.assert_allclose(scope["y"], wanted, rtol=1e-4, atol=1e-5)
    assert scope["scores"].shape == (5, 10)
    assert scope["total"].tolist() == [2.0] * 4
    for path in ("network.nnef.tgz", "network.pt2", "decomposed.pt2"):
        found = scope["nnefc"].compile(path)(x.numpy())
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "guide"}
    for snippet in re.findall(r"```python\n(.*?)```", PAGES["torch_to_nnef"].read_text(), re.S):
        exec(compile(snippet, "torch_to_nnef.md", "exec"), scope)
    nnefc, torch = scope["nnefc"], scope["torch"]
    for path, module, given in (
        ("network.nnef.tgz", scope["network"], scope["x"]),
        ("classifier.nnef.tgz", scope["classifier"], scope["ids"]),
    ):
        with torch.no_grad():
            wanted = module.eval()(given).numpy()
        found = nnefc.compile(path)(given)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert scope["longer"].shape == (1, 3)
    assert scope["y"].shape == (1, 4, 8)


@pytest.mark.parametrize("name", SMALL)
def test_examples_compare_with_pytorch(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ROOT / "examples" / "pytorch" / f"{name}.py"
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(script), *SMALL[name]])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    differences = re.findall(r"difference (\S+?)[;\n]", printed)
    assert differences
    assert all(float(each) < 1e-4 for each in differences), printed
    assert "nnefc" in printed and "PyTorch" in printed
