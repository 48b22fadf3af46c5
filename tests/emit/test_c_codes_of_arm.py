"""Quantized networks have the same bits on aarch64, with and without dot products of bytes."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from tests.helpers.artifacts.c_programs import run_main
from tests.helpers.artifacts.emulated import emulated_program, needs_emulator
from tests.helpers.onnx.quantized_networks import Network

UNIT = 0.02
TARGETS = ("aarch64", "cortex-a53"), ("aarch64+dotprod", "neoverse-n1"), ("aarch64+i8mm", "max")
SIZES = (13, 20, 21), (2, 8, 4), (8, 28, 24), (1, 12, 9)
"""Rows, depths and columns of products: odd and even numbers of rows and of words of the depth."""


def network() -> tuple[Any, tuple[int, ...]]:
    """Convolutions of all kinds, pooling, a table, a resize, products and softmax of codes."""
    net, dtype = Network(), "uint8"
    around: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    x = net.rounded("x", UNIT, 128, dtype)
    x = net.rounded(net.conv(x, UNIT, (3, 24), strides=[2, 2], **around), UNIT, 119, dtype)
    x = net.rounded(net.node("MaxPool", x, kernel_shape=[3, 3], **around), UNIT, 119, dtype)
    x = net.rounded(net.conv(x, UNIT, (24, 24), group=24, **around), UNIT, 121, dtype)
    gate = net.rounded(net.node("Sigmoid", x), 1 / 255, 0, dtype)
    x = net.rounded(net.node("Mul", x, gate), UNIT, 38, dtype)
    y = net.rounded(net.conv(x, UNIT, (24, 24), group=2, **around), UNIT, 131, dtype)
    x = net.rounded(net.node("Relu", net.node("Add", x, y)), UNIT, 5, dtype)
    mean = net.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], **around)
    x = net.rounded(mean, UNIT, 5, dtype)
    scales = net.constant(np.array([1, 1, 2, 2], "f4"))
    x = net.rounded(net.node("Resize", x, "", scales, mode="linear"), UNIT, 5, dtype)
    whole = net.rounded(net.node("GlobalAveragePool", x), UNIT / 4, 100, dtype)
    x = net.rounded(net.node("Mul", x, whole), UNIT, 121, dtype)
    x = net.node("Reshape", x, net.constant(np.array([1, 24, -1], np.int64)))
    turned = net.node("Transpose", x, perm=[0, 2, 1])
    scores = net.rounded(net.node("MatMul", x, turned), 5 * UNIT, 100, dtype)
    shares = net.rounded(net.node("Softmax", scores, axis=-1), 1 / 256, 0, dtype)
    x = net.rounded(net.node("MatMul", shares, x), UNIT, 110, dtype)
    weights = np.random.default_rng(1).integers(-127, 127, (64, 21), np.int8, endpoint=True)
    known = net.node(
        "DequantizeLinear", net.constant(weights), *net.parameters(UNIT / 9, 0, "int8")
    )
    shape = (1, 3, 16, 16)
    return net.model(shape, y=(net.node("MatMul", x, known), "float32")), shape


@pytest.mark.slow
@needs_emulator
def test_quantized_networks_have_the_same_bits(tmp_path: Path) -> None:
    document, shape = network()
    onnx.save(document, tmp_path / "net.onnx")
    model = nnefc.compile(tmp_path / "net.onnx", strict_quantization=True)
    x = (np.random.default_rng(4).normal(0, 60, shape).round() * UNIT).astype(np.float32)
    want = np.asarray(model(x))
    assert len(np.unique(want)) > 50
    for target, cpu in TARGETS:
        folder = tmp_path / target
        model.emit_c(folder, name="net", target=target)
        emulated_program(folder, "net", cpu)
        (got,) = run_main(folder / "example", 1, [x], [want])
        np.testing.assert_array_equal(got, want, target)
    emulated_program(tmp_path / "aarch64+dotprod", "net", "cortex-a53")
    program = tmp_path / "aarch64+dotprod" / "example"
    done = subprocess.run([program, "-t", "1"], cwd=program.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert "compiled for (aarch64 with dotprod)" in done.stderr


@pytest.mark.slow
@needs_emulator
def test_sums_are_exact(tmp_path: Path) -> None:
    inputs, outputs, nodes = list[str](), list[str](), list[str]()
    for i, (m, k, n) in enumerate(SIZES):
        inputs += [f"int8[{m},{k}] a{i}", f"int8[{k},{n}] b{i}"]
        outputs.append(f"int32[{m},{n}] y{i}")
        nodes.append(f"y{i} = MatMulInteger(a{i}, b{i})")
    inputs.append("int8[1,12,5,7] image")
    outputs.append("int32[1,24,3,5] y")
    nodes.append("y = ConvInteger(image, filter)")
    graph = f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    document = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    random = np.random.default_rng(2)
    shapes = [shape for m, k, n in SIZES for shape in ((m, k), (k, n))]
    shapes += [(1, 12, 5, 7), (24, 12, 3, 3)]
    *x, filter_ = [random.integers(-128, 127, each, np.int8, endpoint=True) for each in shapes]
    document.graph.initializer.append(onnx.numpy_helper.from_array(filter_, "filter"))
    onnx.save(document, tmp_path / "net.onnx")
    pairs = zip(x[:-1:2], x[1::2], strict=True)
    want = [(a.astype(np.int64) @ b).astype(np.int32) for a, b in pairs]
    windows = np.lib.stride_tricks.sliding_window_view(x[-1].astype(np.int64), (3, 3), (2, 3))
    want.append(np.einsum("ncyxhw,ochw->noyx", windows, filter_).astype(np.int32))
    model = nnefc.compile(tmp_path / "net.onnx")
    model.emit_c(tmp_path / "c", name="net", target="aarch64+i8mm")
    program = emulated_program(tmp_path / "c", "net")
    for got, each in zip(run_main(program, 1, x, want), want, strict=True):
        np.testing.assert_array_equal(got, each)
