"""A few of the networks of `benchmarks.pytorch_onnx`, which need PyTorch only."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch

from benchmarks.difference import largest_difference
from benchmarks.pytorch_onnx.check import check
from benchmarks.pytorch_onnx.export import Variant
from benchmarks.pytorch_onnx.networks import NETWORKS

EXPORTERS = ("torchscript", *(("dynamo",) if find_spec("onnxscript") else ()))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(
    ("name", "dynamic"), [("super_resolution", False), ("gru", True), ("diffusion", True)]
)
def test_exports_agree_with_pytorch(
    name: str, dynamic: bool, exporter: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = NETWORKS[name].make(True)
    checked = check(
        name, network, Variant(exporter, dynamic), tmp_path, small=True, tell=lambda _: None
    )
    assert checked.is_right, checked
    assert isinstance(checked.onnxruntime, float)
    assert checked.onnxruntime <= 1e-5


def test_difference_is_relative_to_the_largest_item() -> None:
    wanted = np.array([10.0, 0.0], np.float32)
    assert largest_difference([wanted + np.float32(0.5)], [wanted]) == pytest.approx(0.05)
    assert largest_difference([wanted], []) == float("inf")
    assert largest_difference([wanted[:1]], [wanted]) == float("inf")
    assert largest_difference([np.array([np.nan, 0.0])], [wanted]) == float("inf")
    assert largest_difference([np.array([1, 2])], [np.array([1, 3])]) == float("inf")
