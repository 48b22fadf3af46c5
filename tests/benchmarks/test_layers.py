"""The layers of `benchmarks.layers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import artifacts
from benchmarks.layers import Layer, describe, layers_of, measure
from benchmarks.worker import EngineError, Worker
from nnefc.ops.tools.cost import macs


def test_layers_of_a_network(tmp_path: Path) -> None:
    network = artifacts.prepare("mobilenet_v2", tmp_path, small=True)
    layers = layers_of(network)
    assert sum(layers.values()) == 52
    names = [str(layer) for layer in layers]
    assert names[:3] == ["3→32 3×3/2 @64", "32→32 3×3 depthwise @32", "32→16 1×1 @32"]
    graph = artifacts.import_graph(network, data=False)
    total = sum(macs(op) for op in graph.ops if op.name == "conv")
    assert sum(layer.macs * count for layer, count in layers.items()) == total


def test_a_layer_is_measured(tmp_path: Path) -> None:
    layer = Layer((1, 4, 9, 7), (6, 2, 3, 1), (2, 1), ((1, 0), (0, 0)), (1, 2), 2)
    assert layer.extents == (4, 7)
    assert str(layer) == "4→6 3×1/2×1 dilation 1×2 in 2 groups @9×7"
    worker = Worker("nnefc", 1)
    try:
        seconds, failures = measure(layer, tmp_path, {"nnefc": worker}, 1, rounds=3, turn=0.0)
        assert [len(turn) for turn in seconds["nnefc"]] == [1, 1, 1]
        assert all(0 < s < 1 for (s,) in seconds["nnefc"])
        assert not failures
        with pytest.raises(EngineError):
            worker.call("load_profiled", None, 1, {})
    finally:
        worker.close()


def test_description() -> None:
    layer = Layer((1, 10, 5, 5), (20, 10, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    turns = {"nnefc": [[2e-6]] * 3, "mnn": [[3e-6]] * 3, "onnxruntime": [[5e-6]] * 3}
    found = describe(layer, 2, turns, peak=10.0)
    assert found["macs"] == 5000
    assert found["gflops"] == pytest.approx(5.0)
    assert found["of_peak"] == pytest.approx(0.5)
    assert found["best_peer"] == "mnn"
    assert found["ratio"]["value"] == pytest.approx(1.5)
