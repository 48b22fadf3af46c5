"""Quantized files of networks of the zoo."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx

from benchmarks import artifacts
from benchmarks.measure import compare
from benchmarks.quantized.__main__ import ENGINES, NETWORKS, Precision
from benchmarks.quantized.files import Method, quantized
from benchmarks.worker import Worker
from benchmarks.zoo import ZOO
from nnefc.kernels.target.isa import host


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_products_have_a_scale_per_column(tmp_path: Path) -> None:
    network = artifacts.prepare("bert", tmp_path, small=True)
    made = quantized(network, Method.PRODUCTS)
    graph = onnx.load(made.archive).graph
    shapes = {each.name: tuple(each.dims) for each in graph.initializer}
    weights = [
        (shapes[node.input[0]], shapes[node.input[1]], node.attribute[0].i)
        for node in graph.node
        if node.op_type == "DequantizeLinear" and len(shapes.get(node.input[0], ())) == 2
    ]
    assert weights
    assert all(scales == (columns,) and axis == 1 for (_, columns), scales, axis in weights)
    assert not kinds(network.file(artifacts.ONNX)) & {"QuantizeLinear"}
    before = made.archive.stat().st_mtime_ns
    assert quantized(network, Method.PRODUCTS).archive.stat().st_mtime_ns == before


def test_dynamic_files_find_ranges_in_each_run(tmp_path: Path) -> None:
    network = artifacts.prepare("lstm", tmp_path, small=True)
    made = quantized(network, Method.DYNAMIC)
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= kinds(made.archive)
    assert made.folder != network.folder
    assert "dynamic" in made.title


def test_networks_are_in_the_zoo() -> None:
    assert set(NETWORKS) <= set(ZOO)


def test_a_softmax_at_the_end_has_no_codes(tmp_path: Path) -> None:
    network = artifacts.prepare("mobilenet_v2", tmp_path, small=True)
    made = quantized(network, Method.STATIC)
    graph = onnx.load(made.archive).graph
    (softmax,) = (node for node in graph.node if node.op_type == "Softmax")
    assert softmax.output[0] == graph.output[0].name


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[Precision.BFLOAT16].split(","))
def test_engines_multiply_bfloat16(engine: str, tmp_path: Path) -> None:
    if find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    if engine == "nnefc" and not (host().bfloat16_dot or host().matrix_dot):
        pytest.skip("this machine has no products of bfloat16")
    network = artifacts.prepare("vit", tmp_path, small=True)
    halves = replace(network, precision="bfloat16")
    results: list[np.ndarray[Any, Any]] = []
    for each in (network, halves):
        with closing(Worker(engine, 1)) as worker:
            worker.call("convert", each)
            worker.call("load", each, 1, each.arrays())
            results.append(worker.call("outputs")["output"])
    assert results[0].shape == results[1].shape == (1, 1000)
    error = np.abs(results[0] - results[1]).max() / np.abs(results[0]).max()
    assert 1e-4 < error < 0.1


@pytest.mark.slow
def test_float32_is_measured_in_turns(tmp_path: Path) -> None:
    network = artifacts.prepare("mlp", tmp_path, small=True)
    compared = compare(network, ["nnefc"], 1, reals=network, rounds=2, turn=0.0)
    assert compared.reals
    assert len(compared.reals.turns) == 2
    assert list(compared.engines) == ["nnefc"]
    assert compared.reals.memory_resident > compared.reals.memory_before > 0


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="LiteRT is not installed")
@pytest.mark.parametrize(
    ("name", "method", "tolerance"),
    [
        ("mobilenet_v2", Method.STATIC, 1e-6),  # every code is the same
        ("unet", Method.STATIC, 0.05),
        ("shufflenet_v2", Method.STATIC, 0.05),
        ("vit", Method.STATIC, 0.1),
        ("bert", Method.PRODUCTS, 0.1),
        ("lstm", Method.DYNAMIC, 1e-5),
    ],
)
def test_translations_for_litert(
    name: str, method: Method, tolerance: float, tmp_path: Path
) -> None:
    made = quantized(artifacts.prepare(name, tmp_path, small=True), method)
    compared = compare(made, ["onnxruntime", "litert"], 1, rounds=1, turn=0.0)
    litert = compared.engines["litert"]
    assert not litert.failure, litert.failure
    # the consensus of two is their mean
    assert 2 * litert.error <= tolerance


@pytest.mark.slow
@pytest.mark.skipif(find_spec("MNN") is None, reason="MNN is not installed")
def test_networks_quantized_by_mnn(tmp_path: Path) -> None:
    for name, method in (("unet", Method.STATIC), ("lstm", Method.DYNAMIC)):
        made = quantized(artifacts.prepare(name, tmp_path, small=True), method)
        mnn = compare(made, ["onnxruntime", "mnn"], 1, rounds=1, turn=0.0).engines["mnn"]
        assert not mnn.failure, mnn.failure
        assert 1e-5 < mnn.error < 0.1
