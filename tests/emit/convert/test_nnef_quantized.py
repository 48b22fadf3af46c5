"""Quantized graphs as documents of NNEF 1.0.2 with graph.quant, for nnefc and Khronos' parser."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import HELD_OUT, IMAGES
from nnefc.emit.convert.nnef_quantized import quantized_document
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import NnefError
from tests.helpers.command_line import DIGITS, Cli

Array = np.ndarray[Any, Any]
khronos: Any = import_module("nnef")

RESIDUAL = """version 1.0; graph net(x) -> (y, s) {
    x = external(shape = [1,2,5,5]);
    w = variable(shape = [4,2,3,3], label = 'block/w');
    v = variable(shape = [4,4,1,1], label = 'v');
    m = variable(shape = [3,100], label = 'm');
    a = conv(x, w, 0.1, padding = [(1,1),(1,1)]);
    b = conv(a, v, 0.0);
    y = add(a, b);
    flat = reshape(y, shape = [1, 100]);
    s = linear(flat, m, 0.0);
}"""


def reals(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def residual() -> Graph:
    graph = import_text(RESIDUAL)
    for variable in graph.variables.values():
        variable.data = reals(*variable.type.dims, seed=len(variable.label))
    return graph


def outputs(graph: Graph, x: Array) -> dict[str, Array]:
    return evaluate(graph, {graph.inputs[0].name: x}).outputs


@pytest.mark.parametrize("activations", ["uint8", "int8", "int16"])
def test_a_document_is_read_as_the_quantized_graph(tmp_path: Path, activations: Any) -> None:
    graph = residual()
    samples = reals(6, 1, 2, 5, 5, seed=1)
    codes = nnefc.quantize(graph, samples, activations=activations)
    model = quantized_document(codes)
    assert model.converted.dialect == "NNEF 1.0.2 with graph.quant"
    model.write(tmp_path / "net")
    again = nnefc.import_model(tmp_path / "net", strict=True)
    for x in samples:
        want, found, real = (outputs(each, x) for each in (codes, again, graph))
        assert list(found) == list(want)
        for name, y in want.items():
            np.testing.assert_allclose(found[name], y, rtol=1e-6, atol=1e-6)
            assert np.abs(y - real[name]).max() > 1e-3, "codes differ from reals"
    stored = {name for name, array in model.tensors.items() if array.dtype == np.int8}
    assert stored == {"block/w_quantized", "v_quantized", "m_quantized"}
    parsed = khronos.load_graph(str(tmp_path / "net"))
    quantized = {n: t.quantization for n, t in parsed.tensors.items() if t.quantization}
    assert set(quantized) >= {"x", "a_2", "flat", "block_w_quantized"}, "a is read as reals, too"
    weights = parsed.tensors["block_w_quantized"]
    np.testing.assert_array_equal(weights.data, model.tensors["block/w_quantized"])
    assert (weights.quantization["min"], weights.quantization["max"]) == (-128, 127)


def test_the_command_writes_it_by_default(cli: Cli, tmp_path: Path) -> None:
    for name in ("net", "q.onnx"):
        shown = cli("quantize", DIGITS, "--data", IMAGES, "-o", tmp_path / name)
        assert shown.status == 0, shown.err
    text = (tmp_path / "net" / "graph.quant").read_text()
    assert text.count("linear_quantize") == 8
    khronos.load_graph(str(tmp_path / "net"))
    graphs = [nnefc.import_model(tmp_path / name) for name in ("net", "q.onnx")]
    for image in np.load(HELD_OUT)["images"][:5, None, None] / np.float32(16):
        found, want = (outputs(graph, image)["probabilities"] for graph in graphs)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-9)


def test_what_it_cannot_say_is_in_the_dialect_of_tract(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(
        """version 1.0; extension tract_registry tract_core;
        graph net(x) -> (y) { x = external<scalar>(shape = [2,4]);
        w = variable<scalar>(shape = [3,4], label = 'w');
        e = tract_core_erf(x); y = matmul(e, w, transposeB = true); }"""
    )
    nnefc.write_tensor(tmp_path / "w.dat", reals(3, 4, seed=0))
    np.save(tmp_path / "x.npy", reals(5, 2, 4, seed=1))
    options = ("--data", tmp_path / "x.npy", "-o", tmp_path / "q")
    shown = cli("quantize", tmp_path, *options, "--to", "nnef")
    assert shown.status == 1
    assert "'erf' cannot be written" in shown.err
    assert "in the dialect of tract" in cli("quantize", tmp_path, *options).out


def test_scales_of_channels_of_activations_are_refused() -> None:
    codes = nnefc.quantize(residual(), reals(2, 1, 2, 5, 5, seed=1))
    scale = next(op for op in codes.ops if op.name == "quantize").inputs[1]
    scale.type = scale.type.with_shape((1, 2, 1, 1))
    assert scale.op is not None
    items = np.array([0.1, 0.2], np.float32).reshape(1, 2, 1, 1)
    scale.op.attributes |= {"shape": (1, 2, 1, 1), "value": items}
    with pytest.raises(NnefError, match="'quantize' of such codes cannot be written"):
        quantized_document(codes)


def test_labels_of_weights_and_biases_are_valid_and_differ(tmp_path: Path) -> None:
    """Names of ONNX may have characters that labels lack, and may then be equal."""
    parser: Any = pytest.importorskip("onnx.parser")
    helper: Any = import_module("onnx.numpy_helper")
    net = (
        '<ir_version: 8, opset_import: ["":17]> g (float[1,3,8,8] x) => (float[1,3,4,4] y) '
        "{ c = Conv(x, w, b) r = Relu(c) y = Conv(r, w, b) }"
    )
    model = parser.parse_model(net)
    named = {
        "onnx::Conv_1": reals(3, 3, 3, 3, seed=1),
        "onnx::Conv_2": reals(3, seed=2),
        "onnx__Conv_1": reals(3, 3, 3, 3, seed=3),
        "onnx__Conv_2": reals(3, seed=4),
    }
    names = list(named)
    for node, pair in zip(model.graph.node[::2], (names[:2], names[2:]), strict=True):
        node.input[1], node.input[2] = pair
    model.graph.initializer.extend(helper.from_array(a, name) for name, a in named.items())
    x = reals(1, 3, 8, 8, seed=5)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    codes = nnefc.quantize(tmp_path / "net.onnx", x)
    for label in (variable.label for variable in codes.variables.values()):
        assert re.fullmatch(r"[-\w./\\]+", label, re.ASCII), label
    quantized_document(codes).write(tmp_path / "net.tgz")
    again = nnefc.import_model(tmp_path / "net.tgz", strict=True)
    labels = [variable.label.lower() for variable in again.variables.values()]
    assert len({*labels}) == len(labels) == 6, "two filters with scales, and two biases"
    want, found = outputs(codes, x)["y"], outputs(again, x)["y"]
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-5)


def test_a_result_that_is_also_rounded_stays_real(tmp_path: Path) -> None:
    graph = import_text("""version 1.0; graph net(x) -> (y, z) {
        x = external(shape = [1,2,5,5]);
        w = variable(shape = [4,2,3,3], label = 'w');
        v = variable(shape = [4,4,1,1], label = 'v');
        y = conv(x, w, 0.1);
        z = conv(y, v, 0.0);
    }""")
    for variable in graph.variables.values():
        variable.data = reals(*variable.type.dims, seed=len(variable.label))
    codes = nnefc.quantize(graph, reals(6, 1, 2, 5, 5, seed=1))
    model = quantized_document(codes)
    model.write(tmp_path / "net")
    assert model.quantization is not None
    assert '"y":' not in model.quantization
    again = nnefc.import_model(tmp_path / "net", strict=True)
    x = reals(1, 2, 5, 5, seed=2)
    np.testing.assert_allclose(outputs(again, x)["y"], outputs(codes, x)["y"], 1e-6, 1e-6)
