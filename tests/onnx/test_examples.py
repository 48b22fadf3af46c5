"""The scripts of examples/onnx run, and give the results of onnxruntime."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "onnx"
FOUND = re.compile(r"(\d+) drawn, (\d+) found, (\d+) of them where they are")


@pytest.mark.parametrize(
    ("name", "options", "comparisons"),
    [
        ("detector", (), 3),
        ("text_classifier", ("--layers", "1"), 3),
        ("decoder", ("--layers", "1", "--tokens", "9"), 1),
    ],
)
def test_examples_compare_with_onnxruntime(
    name: str,
    options: tuple[str, ...],
    comparisons: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = FOLDER / f"{name}.py"
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(script), *options])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    differences = re.findall(r"difference (\S+)", printed)
    assert len(differences) == comparisons, printed
    assert all(float(each) < 1e-4 for each in differences), printed
    if name == "detector":
        counts = [tuple(map(int, each)) for each in FOUND.findall(printed)]
        assert len(counts) == 3 and all(a == b == c > 0 for a, b, c in counts), printed
    if name == "decoder":
        assert "9 of 9 tokens are equal" in printed


def test_the_page_of_the_examples_names_all_scripts() -> None:
    scripts = {each.stem for each in FOLDER.glob("*.py")} - {"network"}
    page = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)\.py`", page, re.M)) == scripts
