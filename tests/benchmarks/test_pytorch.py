"""`benchmarks.pytorch` on a small module."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from benchmarks.pytorch import __main__ as command
from benchmarks.pytorch.measure import difference
from benchmarks.pytorch.networks import NETWORKS, Entry


def _found(_name: str) -> bool:
    return True


def small(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (torch.ones(2, 4),), {}


def test_engines_are_measured_alternately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "small", Entry("Small", "torch.nn", small))
    monkeypatch.setattr(command, "find_spec", _found)
    run, table = tmp_path / "run.json", tmp_path / "table.md"
    command.main(
        "small", engines="nnefc,eager", threads="1", rounds=5, turn=0.001, json=run, table=table
    )
    (facts,) = json.loads(run.read_text())["results"]
    engines = facts["engines"]
    assert facts["best_peer"] == "eager"
    assert engines["nnefc"]["error"] <= 1e-6
    assert len(engines["nnefc"]["turns_ms"]) == 5
    medians = [engines[name]["median_ms"] for name in ("eager", "nnefc")]
    assert facts["ratio"] == pytest.approx(medians[0] / medians[1])
    assert "| Small |" in table.read_text()


def test_difference_is_relative_to_the_largest_item() -> None:
    wanted = torch.tensor([10.0, 0.0])
    assert difference([wanted + 0.5], [wanted]) == pytest.approx(0.05)
    assert difference([], [wanted]) == math.inf
    assert difference([wanted[:1]], [wanted]) == math.inf
    assert difference([torch.tensor([math.nan, 0.0])], [wanted]) == math.inf
