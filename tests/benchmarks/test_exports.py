"""The exported networks of `benchmarks.exports`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_to_nnef")

from benchmarks.exported.files import Files, write
from benchmarks.exported.networks import networks
from benchmarks.exports import LOADERS, NAMES, planning


@pytest.mark.parametrize("name", NAMES)
def test_engines_run_the_same_network(name: str, tmp_path: Path) -> None:
    for module in ("onnxruntime", "onnx"):
        pytest.importorskip(module)
    network, files = networks(small=True)[name], Files.of(name, tmp_path)
    write(network, files)
    x = network.inputs(network.extent).numpy()
    wanted = LOADERS["torch"](network, files, x, 1)()
    for engine in ("nnefc", "onnxruntime"):
        found = LOADERS[engine](network, files, x, 1)()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=engine)
    assert len(planning(network, files, 1)) == 1 + len(network.others)


def test_names_are_those_of_the_networks() -> None:
    assert tuple(networks(small=True)) == tuple(networks(small=False)) == NAMES
