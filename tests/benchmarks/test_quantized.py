"""Quantized files of networks of the zoo."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

from benchmarks import artifacts
from benchmarks.quantized.__main__ import NETWORKS
from benchmarks.quantized.files import Method, quantized
from benchmarks.zoo import ZOO


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
