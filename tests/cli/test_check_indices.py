"""`--no-check-indices`: commands use the nearest item for an index out of range."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.runtime.artifact.artifact_file import open_file
from tests.helpers.artifacts.model_cache import entries
from tests.helpers.command_line import Cli

EMBEDDING = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
graph embedding( ids ) -> ( rows )
{
    ids = tract_core_external(shape = [2, %s], datum_type = 'i64');
    table = variable(label = 'table', shape = [10, 4]);
    rows = tract_core_gather(table, ids, axis = 0);
}
"""
WRONG = np.array([[0, 9, 2], [3, 10, -11]])
NEAREST = np.array([[0, 9, 2], [3, 9, 0]])
OPTIONS = ("--random-weights", 1, "--threads", 1)
UNCHECKED = (*OPTIONS, "--no-check-indices")


@pytest.fixture(params=["3", "S"], ids=["known shape", "symbol"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "graph.nnef").write_text(EMBEDDING % request.param)
    np.save(tmp_path / "ids.npy", WRONG)
    return tmp_path / "graph.nnef"


def expected(model: Path) -> np.ndarray:
    table = nnefc.import_model(model, shapes={"ids": (2, 3)}, random_weights=1).variables["table"]
    return np.asarray(table.data)[NEAREST]


@pytest.mark.parametrize("reference", [(), ("--reference",)], ids=["compiled", "reference"])
def test_run(cli: Cli, model: Path, reference: tuple[str, ...]) -> None:
    arguments = ("run", model, "-i", model.parent / "ids.npy", "-o", model.parent / "y.npy")
    refused = cli(*arguments, *OPTIONS, *reference)
    assert refused.status == 1
    assert "index 10 at [1, 1] of 'ids' is not in the range -10 to 9" in refused.err
    assert "compiled with --no-check-indices, the model uses the nearest item" in refused.err
    assert cli(*arguments, *UNCHECKED, *reference).status == 0
    np.testing.assert_array_equal(np.load(model.parent / "y.npy"), expected(model))


@pytest.mark.parametrize("command", ["compare", "bench"])
def test_commands_that_take_inputs(cli: Cli, model: Path, command: str) -> None:
    quick = ("--duration", 0.01, "--warmup", 0, "--no-cold") if command == "bench" else ()
    arguments = (command, model, "-i", model.parent / "ids.npy", *quick)
    assert "input/index" in cli(*arguments, *OPTIONS).err
    passed = cli(*arguments, *UNCHECKED)
    assert (passed.status, passed.err) == (0, "")


def test_artifacts_keep_the_option(cli: Cli, model: Path) -> None:
    path = model.parent / "net.nnefc"
    is_dynamic = "[2, S]" in model.read_text()
    dynamic = ("--dynamic", "--symbol", "S=3") if is_dynamic else ()
    assert cli("compile", model, *UNCHECKED, *dynamic, "-o", path).status == 0
    run = ("run", path, "-i", model.parent / "ids.npy", "-o", model.parent / "y.npy")
    assert cli(*run, "--threads", 1).status == 0
    np.testing.assert_array_equal(np.load(model.parent / "y.npy"), expected(model))
    refused = cli(*run, "--no-check-indices")
    assert refused.status == 1
    assert "--no-check-indices cannot apply" in refused.err
    assert "nnefc compile MODEL --no-check-indices -o net.nnefc" in refused.err
    assert cli("compare", path, "-i", model.parent / "ids.npy", "--threads", 1).status == 0


def test_artifacts_for_other_processors_keep_the_option(cli: Cli, model: Path) -> None:
    path = model.parent / "net.nnefc"
    arguments = (*UNCHECKED, "--shape", "ids=2,3", "--target", "aarch64", "-o", path)
    assert cli("compile", model, *arguments).status == 0
    from nnefc.runtime.artifact.read_artifact import artifact_in

    assert not artifact_in(open_file(path)).check_indices


def test_bench_measures_the_start_with_the_option(cli: Cli, model: Path) -> None:
    quick = ("--duration", 0.01, "--warmup", 0, "--shape", "ids=2,3", "--json")
    facts = json.loads(cli("bench", model, *UNCHECKED, *quick).out)
    assert facts["cold_start_ms"]["total"] > 0


@pytest.mark.usefixtures("keep_models")
def test_warm_stores_the_model_of_the_option(cli: Cli, model: Path, folder: Path) -> None:
    named = (model, *UNCHECKED, "--shape", "ids=2,3")
    stored = json.loads(cli("cache", "warm", *named, "--json").out)
    assert stored["models_kept"] == len(entries(folder)) == 1
    assert cli("cache", "explain", *named).out.strip().endswith("needs none of the kernels")
    checked = cli("cache", "explain", model, *OPTIONS, "--shape", "ids=2,3").out
    assert "the compiled model is not in the cache" in checked


def test_profile_takes_the_option(cli: Cli, model: Path) -> None:
    arguments = ("--shape", "ids=2,3", "--duration", 0.01)
    assert cli("profile", model, *UNCHECKED, *arguments).status == 0
