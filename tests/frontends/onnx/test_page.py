"""docs/onnx.md: its examples run; docs/onnx-operators.md lists the registered operators."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.frontends.onnx.operator_pages import page
from nnefc.frontends.onnx.registry import NEWEST, Operator, versions_of

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "onnx.md").read_text()


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, values, second, third = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    scope: dict[str, Any] = {}
    exec(compile(first, "onnx.md", "exec"), scope)
    assert f"print(model)  # {scope['model']!r}\n" in first
    np.testing.assert_array_equal(scope["y"], np.full((3, 4), 16))
    assert scope["fixed"].inputs[0].shape == (1, 16)
    of_values: dict[str, Any] = {}
    exec(compile(values, "onnx.md", "exec"), of_values)
    assert f"print(top)  # {of_values['top']!r}\n" in values
    np.testing.assert_array_equal(of_values["values"], -np.sort(-of_values["x"], 1)[:, :3])
    exec(compile(second, "onnx.md", "exec"), scope)
    assert f"# {scope['session'].get_inputs()[0]!r}\n" in second
    np.testing.assert_array_equal(scope["y"], np.full((3, 4), 16))
    del scope["y"]
    exec(compile(third, "onnx.md", "exec"), scope)
    np.testing.assert_array_equal(scope["y"], np.full((3, 4), 16))


def test_the_table_of_operators_is_current() -> None:
    """Run `python -m nnefc.frontends.onnx.operator_pages > docs/onnx-operators.md`."""
    assert (DOCS / "onnx-operators.md").read_text() == page()


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([(1, NEWEST)], "1 and later"),
        ([(7, NEWEST), (1, 6)], "1 and later"),
        ([(1, 5), (9, 9)], "1 to 5, 9"),
    ],
)
def test_ranges_of_versions_are_joined(ranges: list[tuple[int, int]], text: str) -> None:
    assert versions_of(Operator("A", since, until, print) for since, until in ranges) == text
