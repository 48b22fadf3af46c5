"""The sweep over models of PyTorch: limits of its processes, and its arguments."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("torch")

from benchmarks.pytorch_models import __main__ as command
from benchmarks.pytorch_models.checked import Checked, Status
from benchmarks.pytorch_models.isolated_check import isolated_check


def test_processes_end_after_their_time() -> None:
    checked = isolated_check("timm", "test_vit", 0.0, 12)
    assert checked == Checked("test_vit", Status.ENDED, "more than 0 s")


def test_models_that_cannot_be_built_are_told() -> None:
    checked = isolated_check("timm", "no_such_model", 120, 12)
    assert checked.status is Status.EAGER
    assert "no_such_model" in checked.message or "timm" in checked.message


def test_results_are_wrong_above_the_tolerance() -> None:
    assert Checked.compared("a", 1e-5, 1.0, 3).status is Status.RIGHT
    assert Checked.compared("a", 2e-4, 1.0, 3).status is Status.WRONG
    wrong = Checked.compared("a", float("inf"), 1.0, 3)
    assert Checked.read(json.loads(json.dumps(asdict(wrong)))) == wrong


def test_arguments_are_checked_first(tmp_path: Path) -> None:
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(command.main)
    for options, message in (
        (["--suite", "none"], "is not one of torchvision, detection, timm, transformers, generate"),
        (["--suite", "timm", "--seconds", "0"], "--seconds"),
        (["--suite", "timm", "--json", str(tmp_path / "no" / "run.json")], "not"),
    ):
        done = CliRunner(env={"COLUMNS": "400"}).invoke(app, options)
        assert done.exit_code, options
        assert message in done.output, done.output
