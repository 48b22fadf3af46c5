"""The engines of the benchmarks."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import artifacts
from benchmarks.artifacts import Network
from benchmarks.engines.tvm_cpu import Tvm
from benchmarks.measure import compare
from benchmarks.worker import Worker
from tests.helpers.onnx.models import model, node, save, tensor
from tests.helpers.tflite.one_operator import Case, content_of


@pytest.mark.skipif(find_spec("MNN") is None, reason="MNN is not installed")
def test_conversion_for_mnn_installs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "called"
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("pip", "pip3", "uv"):
        tool = tools / name
        tool.write_text(f"#!/bin/sh\necho $0 $@ >> {called}\n")
        tool.chmod(0o755)
    folders = [str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    network = artifacts.prepare("mlp", tmp_path / "models", small=True)
    worker = Worker("mnn", 1)
    try:
        worker.call("convert", network)
        worker.call("load", network, 1, network.arrays())
        assert worker.call("outputs")["output"].shape == (1, 64)
    finally:
        worker.close()
    assert not called.exists(), called.read_text()


@pytest.mark.skipif(find_spec("tvm") is None, reason="TVM is not installed")
@pytest.mark.parametrize("name", ["mlp", "squeezenet"])
def test_tvm_agrees(name: str, tmp_path: Path) -> None:
    network = artifacts.prepare(name, tmp_path, small=True)
    found = compare(network, ["nnefc", "tvm"], 1, rounds=1, turn=0.0).engines["tvm"]
    assert found.is_right, (found.failure, found.error)
    assert found.turns


def test_a_tensorflow_lite_file_is_compared_with_its_document(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    case = Case("RELU", [numbers], [((2, 3), "FLOAT32")])
    path = tmp_path / "model.tflite"
    path.write_bytes(content_of(case))
    network = Network("net", "net", 1, tmp_path, path, {"t0": (2, 3)}, ("t1",))
    found = compare(network, ["nnefc", "nnefc_nnef"], 1, rounds=1, turn=0.0)
    assert found.engines["nnefc_nnef"].is_right, found.engines["nnefc_nnef"].failure
    assert found.best_peer is found.engines["nnefc_nnef"]


@pytest.mark.skipif(find_spec("openvino") is None, reason="OpenVINO is not installed")
def test_openvino_finds_ports_that_have_further_names(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Identity", ["b"], ["y"]),
    ]
    made = model(nodes, [tensor("x", [2, 3])], [tensor("y", [2, 3])])
    path = save(made, tmp_path / "model.onnx")
    network = Network("net", "net", 1, tmp_path, path, {"x": (2, 3)}, ("y",))
    found = compare(network, ["nnefc", "openvino"], 1, rounds=1, turn=0.0).engines["openvino"]
    assert found.is_right, (found.failure, found.error)


def test_a_missing_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tvm, "modules", ("not_there",))
    network = artifacts.prepare("mlp", tmp_path, small=True)
    found = compare(network, ["nnefc", "tvm"], 1, rounds=1, turn=0.0)
    assert found.engines["tvm"].failure == "not_there is not installed"
    assert found.ours


def test_kernels_are_warm_when_loading_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("NNEFC_CACHE", str(cache))
    calls: list[tuple[Worker, str, set[str]]] = []
    call = Worker.call

    def noted(worker: Worker, command: str, *arguments: Any) -> Any:
        answer = call(worker, command, *arguments)
        calls.append((worker, command, {path.name for path in cache.rglob("*")}))
        return answer

    monkeypatch.setattr(Worker, "call", noted)
    compare(artifacts.prepare("mlp", tmp_path, small=True), ["nnefc"], 1, rounds=1, turn=0.0)
    kept = {command: files for _, command, files in calls}
    assert kept["warm"]
    assert kept["memory"] == kept["warm"]  # all that follows compiles nothing
    workers = {command: worker for worker, command, _ in calls}
    assert workers["warm"] is not workers["load"]
