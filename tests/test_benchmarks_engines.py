"""Engines that networks are measured with."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import artifacts
from benchmarks.worker import Worker


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
