"""The examples with networks of transformers compute what PyTorch computes."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pytorch"
WIDTH = ("--width", "64", "--layers", "1")
SMALL = {
    "llama_generate": (*WIDTH, "--words", "50", "--tokens", "4"),
    "whisper": (*WIDTH, "--positions", "50", "--tokens", "6"),
    "sentence_encoder": (*WIDTH, "--seconds", "0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_examples_compute_what_pytorch_computes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setattr(sys, "argv", [name, *SMALL[name]])
    torch.compiler.reset()
    with torch.compiler.set_stance("default"):
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    tokens = re.findall(r"(\d+) of (\d+) tokens as", printed)
    differences = re.findall(r"difference (\S+?)[;\n]", printed)
    assert tokens or differences
    assert all(same == count for same, count in tokens), printed
    assert all(float(each) < 1e-4 for each in differences), printed
