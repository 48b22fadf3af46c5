"""Quantized graphs as ONNX models with QuantizeLinear and DequantizeLinear, by onnxruntime."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import ARCHIVE, HELD_OUT, IMAGES
from nnefc.emit.convert.onnx.model import onnx_model
from nnefc.frontends.read_model import read_onnx_bytes
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.extended.quantized import SPECS
from nnefc.ops.tools.build import build, constant
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import instance
from nnefc.options.import_config import DEFAULT

Array = np.ndarray[Any, Any]
LINEAR = {"quantize": "QuantizeLinear", "dequantize": "DequantizeLinear"}


def by_onnxruntime(proto: Any, inputs: dict[str, Array]) -> list[Array]:
    ort: Any = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    # fused integer kernels saturate sums of pairs on processors without dot instructions
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, inputs)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_samples(spec: Any) -> None:
    """Conversions with a scale per item, and roundings up, are composed of others."""
    kinds = Counter[str]()
    for each in spec.samples:
        sample = instance(spec, each)
        proto = onnx_model(sample.graph).proto
        import_module("onnx.checker").check_model(proto)
        kinds.update(node.op_type for node in proto.graph.node)
        expected = evaluate(sample.graph, sample.inputs).outputs
        found = by_onnxruntime(proto, dict(sample.inputs))
        for array, value, want in zip(found, sample.graph.outputs, expected.values(), strict=True):
            np.testing.assert_array_equal(array, want, err_msg=str(each))
            assert array.dtype == value.type.dtype.numpy
    assert kinds[LINEAR[spec.name]] >= 5
    assert kinds["Round" if spec.name == "quantize" else "Mul"] >= 2


@pytest.mark.parametrize("activations", ["uint8", "int8", "int16"])
def test_digits(activations: Any) -> None:
    """Initializers are int8, the results those of onnxruntime, and the file can be read again."""
    graph = nnefc.quantize(ARCHIVE, IMAGES, activations=activations)
    proto = onnx_model(graph).proto
    import_module("onnx.checker").check_model(proto)
    counts = Counter(node.op_type for node in proto.graph.node)
    assert (counts["QuantizeLinear"], counts["DequantizeLinear"]) == (4, 12)
    types = import_module("onnx").TensorProto
    filters = [each for each in proto.graph.initializer if len(each.dims) == 4]
    assert [each.data_type for each in filters] == [types.INT8] * 3
    again = read_onnx_bytes(
        proto.SerializeToString(), DEFAULT, DEFAULT.diagnostics(), dynamic=False
    )
    assert isinstance(again, Graph)
    models = nnefc.compile(graph), nnefc.compile(again)
    images = np.load(HELD_OUT)["images"][:40, None, None] / np.float32(16)
    for image in images:
        (expected,) = by_onnxruntime(proto, {"image": image})
        for model in models:
            np.testing.assert_allclose(model(image), expected, rtol=0, atol=5e-3)


def test_conversions_in_float64_are_composed() -> None:
    graph = nnefc.import_model(ARCHIVE, scalar="float64")
    proto = onnx_model(nnefc.quantize(graph, IMAGES)).proto
    assert "QuantizeLinear" not in {node.op_type for node in proto.graph.node}
    assert "Round" in {node.op_type for node in proto.graph.node}


def test_computed_parameters_are_vectors() -> None:
    """A scale per row that is an input has shape [3, 1] here, [3] in ONNX."""
    graph = Graph()
    x = graph.add_input(TensorType(DType.FLOAT32, (3, 4)), "x")
    scale = graph.add_input(TensorType(DType.FLOAT32, (3, 1)), "scale")
    zero = constant(graph, 7, DType.UINT8)
    codes = build(graph, "quantize", [x, scale, zero]).output
    graph.add_output(build(graph, "dequantize", [codes, scale, zero]).output, "y")
    arrays = {
        "x": np.linspace(-3, 9, 12, dtype=np.float32).reshape(3, 4),
        "scale": np.array([[0.5], [0.25], [1.5]], np.float32),
    }
    (found,) = by_onnxruntime(onnx_model(graph).proto, arrays)
    rounded = np.clip(np.round(arrays["x"] / arrays["scale"]) + 7, 0, 255) - 7
    np.testing.assert_array_equal(found, rounded * arrays["scale"])


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("left", [False, True])
def test_products_with_a_scale_per_channel(
    tmp_path: Path, swapped: bool, rank: int, left: bool
) -> None:
    """Right matrices have rank 2 and left ones no scale per row, which onnxruntime rejects."""
    ones = [1] * (rank - 2)
    known, flag = ("A", "transposeA") if left else ("B", "transposeB")
    dims = [*ones, *((6, 5) if swapped != left else (5, 6))]
    given = [*([2] * (rank - 2)), *((5, 3) if left else (3, 5))]
    order = "w, x" if left else "x, w"
    (tmp_path / "graph.nnef").write_text(
        f"""version 1.0; graph net(x) -> (y) {{ x = external(shape = {given});
        w = variable(shape = {dims}, label = 'w');
        y = matmul({order}, {flag} = {str(swapped).lower()}); }}"""
    )
    random = np.random.default_rng(rank)
    nnefc.write_tensor(tmp_path / "w.dat", random.normal(size=dims).astype(np.float32))
    samples = random.normal(size=(4, *given)).astype(np.float32)
    graph = nnefc.quantize(tmp_path, samples)
    proto = onnx_model(graph).proto
    import_module("onnx.checker").check_model(proto, full_check=True)
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert kinds["DequantizeLinear"] == (1 if left else 2), known
    assert kinds["Transpose"] == (1 if left and swapped else 0)
    expected = evaluate(graph, {"x": samples[0]}).outputs["y"]
    (found,) = by_onnxruntime(proto, {"x": samples[0]})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    ort: Any = import_module("onnxruntime")
    (fused,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": samples[0]})
    assert fused.shape == expected.shape


NETWORK = """version 1.0; extension KHR_enable_operator_expressions; graph net(x) -> (y) {
    x = external(shape = [1,4,12,12]);
    w1 = variable(shape = [8,4,3,3], label = 'w1'); b1 = variable(shape = [1,8], label = 'b1');
    w2 = variable(shape = [8,8,3,3], label = 'w2'); w3 = variable(shape = [8,8,1,1], label = 'w3');
    w4 = variable(shape = [8,1,3,3], label = 'w4'); w5 = variable(shape = [5,16], label = 'w5');
    b5 = variable(shape = [1,5], label = 'b5');
    first = relu(conv(x, w1, b1, padding = [(1,1),(1,1)]));
    pool = max_pool(first, size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore');
    inner = relu(conv(pool, w2, b1, padding = [(1,1),(1,1)]));
    sum1 = relu(add(conv(inner, w3, b1), pool));
    sum2 = add(conv(sum1, w4, b1, groups = 0, padding = [(1,1),(1,1)]), sum1);
    last = relu(conv(sum2, w3, b1));
    joined = concat([last, sum1], axis = 1);
    y = linear(squeeze(mean_reduce(joined, axes = [2,3]), axes = [2,3]), w5, b5);
}"""


def test_onnxruntime_fuses_all_layers(tmp_path: Path) -> None:
    """No convolution, product or sum of reals is left after onnxruntime's optimisations.

    It converts codes in int8 to uint8 only in part, also in its own files.
    """
    (tmp_path / "graph.nnef").write_text(NETWORK)
    random = np.random.default_rng(5)
    for label, variable in nnefc.import_model(tmp_path, random_weights=0).variables.items():
        items = random.normal(size=variable.type.dims, scale=0.2)
        nnefc.write_tensor(tmp_path / f"{label}.dat", items.astype(np.float32))
    samples = random.normal(size=(6, 1, 4, 12, 12)).astype(np.float32)
    graph = nnefc.quantize(tmp_path, samples)
    proto = onnx_model(graph).proto
    import_module("onnx.checker").check_model(proto, full_check=True)
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(proto.SerializeToString(), options)
    fused = import_module("onnx").load(tmp_path / "fused.onnx")
    kinds = Counter(node.op_type for node in fused.graph.node)
    assert kinds["QLinearConv"] == 5
    assert kinds["QLinearAdd"] == 2
    assert not kinds.keys() & {"Conv", "Gemm", "Add", "Concat", "GlobalAveragePool", "Relu"}
    for x in samples:
        (found,) = by_onnxruntime(proto, {"x": x})
        expected = evaluate(graph, {"x": x}).outputs["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
