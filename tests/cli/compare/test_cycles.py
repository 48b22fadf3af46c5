"""`nnefc compare --steps` of models that update variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from tests.helpers.command_line import Cli

SUM = """\
version 1.0;
graph sums( x ) -> ( y )
{
    x = external(shape = [2, 3]);
    total = variable(shape = [2, 3], label = 'the/total');
    y = add(total, x);
    next = update(total, y);
}
"""
X = [np.random.default_rng(i).standard_normal((2, 3)).astype(np.float32) for i in range(3)]
START = np.full((2, 3), 5, np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "graph.nnef").write_text(SUM)
    (tmp_path / "the").mkdir()
    nnefc.write_tensor(tmp_path / "the" / "total.dat", START)
    arrays: dict[str, Any] = {f"turn_{i}/x": x for i, x in enumerate(X)}
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path


def sums() -> list[np.ndarray[Any, Any]]:
    """The results of the calls, in float64."""
    return [START + np.sum(X[: i + 1], 0, np.float64) for i in range(3)]


@pytest.mark.parametrize("saved", [False, True], ids=["document", "artifact"])
def test_each_call_is_compared(cli: Cli, model: Path, saved: bool) -> None:
    path = model / "graph.nnef"
    if saved:
        path = model / "net.nnefc"
        nnefc.compile(model, threads=1).save(path)
    arguments = ("compare", path, "-i", model / "x.npz", "--threads", 1)
    facts = json.loads(cli(*arguments, "--dump", model / "dump", "--json").out)
    rows = [(r["call"], r["kind"], r["tensor"]) for r in facts["tensors"]]
    for call in (1, 2, 3):
        assert (call, "output", "y") in rows
        assert (call, "state", "the/total") in rows
    dumped = [np.load(each) for each in sorted((model / "dump").rglob("*states*/**/*.npy"))]
    for want in sums():
        assert any(np.allclose(array, want, rtol=1e-6) for array in dumped)
    assert cli(*arguments, "--steps", 2).status == 0


def test_results_of_another_engine(cli: Cli, model: Path) -> None:
    arguments = ("compare", model, "-i", model / "x.npz", "--against", model / "y.npz")
    arrays: dict[str, Any] = {f"turn_{i}/y": y.astype(np.float32) for i, y in enumerate(sums())}
    np.savez(model / "y.npz", **arrays)
    assert cli(*arguments).status == 0
    arrays["turn_2/y"] = arrays["turn_2/y"] + 1
    np.savez(model / "y.npz", **arrays)
    assert cli(*arguments).status == 1


def test_one_call_is_the_default(cli: Cli, model: Path) -> None:
    facts = json.loads(cli("compare", model, "--json").out)
    assert {row["kind"] for row in facts["tensors"]} == {"tensor", "output"}
    assert not any("call" in row for row in facts["tensors"])


def test_a_model_without_variables_has_one_call(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(SUM.replace("    next = update(total, y);\n", ""))
    refused = cli("compare", path, "--random-weights", 1, "--steps", 2)
    assert refused.status == 1
    assert "--steps has 2 calls: the model keeps no states" in refused.err
