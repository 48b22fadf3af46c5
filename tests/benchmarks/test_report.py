"""Statistics, reports and charts of the benchmarks."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import artifacts, picture, report
from benchmarks.artifacts import Network
from benchmarks.engines.engine_interface import fastest
from benchmarks.measure import Comparison, Measured, disagreements
from benchmarks.statistics import Interval, geometric_mean, ratio, summarise
from benchmarks.worker import EngineError, Loaded, Worker


def test_summary_has_median_of_turns_and_percentiles_of_runs() -> None:
    found = summarise([[1.0, 2.0, 9.0], [4.0, 4.0, 4.0], [3.0]])
    assert found.median == 3.0  # of 2, 4 and 3
    assert found.runs == 7
    assert found.least == 1.0
    assert found.p10 == pytest.approx(np.percentile([1, 2, 9, 4, 4, 4, 3], 10))
    assert found.p90 == pytest.approx(np.percentile([1, 2, 9, 4, 4, 4, 3], 90))


def _noisy(median: float, seed: int, turns: int = 20) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [list(median * (1 + 0.05 * rng.standard_normal(9))) for _ in range(turns)]


def _bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_ratio_interval_covers_the_truth_and_shrinks() -> None:
    found = ratio(_noisy(3.0, 1), _noisy(2.0, 2))
    low, high = _bounds(found)
    assert low < 1.5 < high
    assert low <= found.value <= high
    least, most = _bounds(ratio(_noisy(3.0, 3, 400), _noisy(2.0, 4, 400)))
    assert most - least < 0.5 * (high - low)


def test_few_turns_have_no_interval() -> None:
    assert str(ratio([[3.0]] * 4, [[2.0]] * 4)) == "1.50 (–)"
    assert str(ratio([[3.0]] * 5, [[2.0]] * 5)) == "1.50 (1.50–1.50)"
    few, many = ([[3.0]] * 4, [[2.0]] * 4), ([[3.0]] * 9, [[2.0]] * 9)
    assert str(geometric_mean([many, few])) == "1.50 (–)"


def test_ratio_of_common_slowdowns_has_a_narrow_interval() -> None:
    slow = np.random.default_rng(5).uniform(1, 3, 30)
    found = ratio([[3 * s] for s in slow], [[2 * s] for s in slow])
    assert found.value == pytest.approx(1.5)
    low, high = _bounds(found)
    assert high - low < 0.3 < found.value * (slow.max() - slow.min())


def test_geometric_mean_of_ratios() -> None:
    same = [[2.0]] * 5
    found = geometric_mean([(same, [[1.0]] * 5), (same, [[4.0]] * 5), (same, [[0.25]] * 5)])
    expected = (2 * 0.5 * 8) ** (1 / 3)
    assert (found.value, found.low, found.high) == pytest.approx((expected,) * 3)


def test_disagreements_are_relative_to_the_largest_value() -> None:
    right = {"y": np.array([1.0, -10.0]), "z": np.array([0.5])}
    off = {"y": np.array([1.0, -10.0]), "z": np.array([0.51])}
    found = disagreements({"a": right, "b": right, "c": off})
    assert found["a"] == found["b"] == 0
    assert found["c"] == pytest.approx(0.02)


def test_disagreements_in_shape_or_by_nan_are_infinite() -> None:
    right = {"y": np.ones((2, 2))}
    wrong = {"shape": {"y": np.ones(4)}, "none": {}, "nan": {"y": np.full((2, 2), np.nan)}}
    found = disagreements({"a": right, "b": right, "c": right, **wrong})
    assert all(math.isinf(found[name]) for name in wrong)
    assert found["a"] == 0


def test_fastest_ignores_modes_that_fail() -> None:
    def broken() -> Any:
        raise ValueError("no")

    name, _ = fastest({"broken": broken, "quick": lambda: lambda: 1})
    assert name == "quick"
    with pytest.raises(ValueError, match="no"):
        fastest({"broken": broken})


def _measured(engine: str, milliseconds: float, error: float = 0.0) -> Measured:
    turns = [[milliseconds / 1e3] * 3] * 4
    arena = 500 if engine == "nnefc" else None
    return Measured(engine, "", Loaded(1.0, "", arena), error, turns, 1_000_000, 5_000_000)


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    network = artifacts.prepare("mlp", tmp_path, small=True)
    assert network.inputs == {"input": (1, 64)}
    found = {
        m.engine: m for m in (_measured("nnefc", 2), _measured("mnn", 3), _measured("ncnn", 1, 1))
    }
    found["tract"] = Measured("tract", failure="is not installed")
    comparisons = [Comparison(network, 1, found)]
    machines: dict[int, Any] = {1: _machine()}
    about = {"processor": "a CPU", "versions": {"mnn": "3"}, "date": "today"}
    return report.facts(comparisons, machines, about)


def _machine() -> Any:
    from nnefc.runtime.machine.roofline import Roofline

    return Roofline(threads=1, fma_gflops=100.0, read_gbps=10.0, copy_gbps=8.0)


def test_facts_rate_the_best_peer_whose_results_are_right(facts: dict[str, Any]) -> None:
    (group,) = facts["results"]
    (model,) = group["models"]
    assert model["best_peer"] == "mnn"
    assert model["ratio"]["value"] == model["ratio_of_fastest"] == pytest.approx(1.5)
    assert group["geometric_mean"]["value"] == pytest.approx(1.5)
    assert model["macs"] == 3 * 64 * 64
    assert not model["engines"]["ncnn"]["is_right"]


def test_runs_are_joined(facts: dict[str, Any]) -> None:
    later = copy.deepcopy(facts)
    (model,) = later["results"][0]["models"]
    model["title"] = "another"
    for turns in (model["engines"]["mnn"]["turns_ms"],):
        turns[:] = [[6 * x for x in turn] for turn in turns]
    model["ratio"]["value"] *= 6
    twice = report.joined([facts, later])
    (group,) = twice["results"]
    assert [each["title"] for each in group["models"]] == ["MLP 3x64", "another"]
    assert group["geometric_mean"]["value"] == pytest.approx(1.5 * math.sqrt(6))
    assert group["worst"] == "MLP 3x64"
    (again,) = report.joined([later, later])["results"]
    assert len(again["models"]) == 1


def test_memory_of_loaded_networks(facts: dict[str, Any]) -> None:
    ours = facts["results"][0]["models"][0]["engines"]["nnefc"]
    ours |= {"memory_before_bytes": 10e6, "memory_peak_bytes": 32e6}
    ours["memory_resident_bytes"] = 15.5e6
    assert "| MLP 3x64 | 22.0, 5.5 |" in report.markdown(facts, work=False)
    assert "22 (" not in report.markdown(facts, work=False)


def test_empty_facts(facts: dict[str, Any]) -> None:
    assert not report.is_empty(facts)
    (model,) = facts["results"][0]["models"]
    model["ratio"] = None
    assert report.is_empty(facts)
    model["engines"] = {"nnefc": model["engines"]["nnefc"]}
    assert not report.is_empty(facts)
    model["engines"] = {"nnefc": {"failure": "no"}}
    assert report.is_empty(facts)


def test_markdown_and_picture(facts: dict[str, Any]) -> None:
    text = report.markdown(facts)
    assert "**3.000 (3.000–3.000)**" in text
    assert "1.000 (1.000–1.000) wrong" in text
    assert "tract (MLP 3x64): is not installed" in text
    rows = [line for line in text.splitlines() if line.startswith("| MLP")]
    assert len(rows) == 3
    image = ElementTree.fromstring(picture.svg(facts))
    titles = [e.text for e in image.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["MNN: 1.50"]


def test_points_beyond_the_axis_are_marked(facts: dict[str, Any]) -> None:
    (model,) = facts["results"][0]["models"]
    ours = model["engines"]["nnefc"]["median_ms"]
    for engine, times in (("ncnn", 40.2), ("mnn", 16.0), ("tract", 25.0)):
        model["engines"][engine] = {"median_ms": times * ours, "is_right": True}
    svg = "{http://www.w3.org/2000/svg}"
    image = ElementTree.fromstring(picture.svg(facts))
    arrows = [e.findtext(f"{svg}title") for e in image.iter(f"{svg}path")]
    assert sorted(map(str, arrows)) == ["ncnn: 40.20", "tract: 25.00"]
    assert "25, 40" in [e.text for e in image.iter(f"{svg}text")]
    circles = [e.findtext(f"{svg}title") for e in image.iter(f"{svg}circle")]
    assert "MNN: 16.00" in circles


def test_pictures_by_suffix(facts: dict[str, Any], tmp_path: Path) -> None:
    picture.write(facts, tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text() == picture.svg(facts)
    with pytest.raises(picture.NoPicture, match=r"\.svg or \.png"):
        picture.write(facts, tmp_path / "run.jpg")


def test_png(facts: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("cairosvg")
    picture.write(facts, tmp_path / "run.PNG")
    data = (tmp_path / "run.PNG").read_bytes()
    assert data.startswith(b"\x89PNG")
    width = int.from_bytes(data[16:20], "big")
    assert width == picture.SCALE * (picture.LEFT + picture.WIDTH + 80)


def test_png_without_cairosvg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(picture.NoPicture, match="needs the package cairosvg"):
        picture.check_format(Path("run.png"))


def test_batch_and_containers(tmp_path: Path) -> None:
    of_zoo = artifacts.prepare("mlp", tmp_path, 3)
    assert of_zoo.inputs == {"input": (3, 64)}
    again = artifacts.prepare(str(of_zoo.archive), tmp_path, 2)
    assert again.inputs == {"input": (2, 64)}
    assert again.outputs == ("output",)


def test_a_worker_runs_a_network(tmp_path: Path) -> None:
    network: Network = artifacts.prepare("mlp", tmp_path)
    worker = Worker("nnefc", 1)
    try:
        loaded: Loaded = worker.call("load", network, 1, network.arrays())
        assert loaded.seconds > 0
        assert worker.call("outputs")["output"].shape == (1, 64)
        assert len(worker.call("measure", 0.001, 5)) in range(1, 6)
        with pytest.raises(EngineError, match="nothing"):
            worker.call("nothing")
    finally:
        worker.close()
