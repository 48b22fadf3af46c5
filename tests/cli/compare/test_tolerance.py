"""The tolerance of `nnefc compare`, which depends on the precision by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import DIGITS, Cli

HALVES = ("--precision", "bfloat16")


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [((), 1e-4), (HALVES, 2e-2), ((*HALVES, "--tolerance", "0.5"), 0.5)],
)
def test_it_depends_on_the_precision(cli: Cli, options: Any, tolerance: float) -> None:
    shown = cli("compare", DIGITS, *options, "--json")
    assert shown.status == 0, shown.err
    assert json.loads(shown.out)["tolerance"] == tolerance


def test_an_artifact_has_its_precision(cli: Cli, tmp_path: Path) -> None:
    assert cli("compile", DIGITS, *HALVES, "-o", tmp_path / "net.nnefc").status == 0
    facts = json.loads(cli("compare", tmp_path / "net.nnefc", "--json").out)
    assert facts["tolerance"] == 2e-2


def test_other_precisions_are_refused(cli: Cli) -> None:
    shown = cli("compare", DIGITS, "--precision", "float8")
    assert shown.status == 1
    assert "must be 'float32', 'bfloat16' or 'float16'" in shown.err
