"""Rewritten graphs: which operands become codes, and what the graph then computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.driver.quantize.fold_normalizations import fold_normalizations
from nnefc.driver.quantize.layers import channel_axis, layers_of
from nnefc.driver.quantize.observe import observe
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS

Array = np.ndarray[Any, Any]
HEAD = "version 1.0; graph net( {0} ) -> ( y ) {{ {1} }}"


def document(folder: Path, inputs: str, body: str, data: dict[str, Array]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(HEAD.format(inputs, body))
    for label, array in data.items():
        nnefc.write_tensor(folder / f"{label}.dat", array)
    return folder


def weights(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def activation(array: Array, scale: float, zero: int) -> Array:
    """Rounded to uint8 codes and back, in float64."""
    codes = np.clip(np.round(array.astype(np.float64) / scale) + zero, 0, 255)
    return (codes - zero) * scale


def channels(array: Array, axis: int) -> Array:
    """Rounded to int8 codes and back with a scale for each index of an axis."""
    others = tuple(i for i in range(array.ndim) if i != axis)
    largest: Array = np.abs(array.astype(np.float64)).max(axis=others, keepdims=True)
    scale: Array = (largest / 127).astype(np.float32)
    codes: Array = np.round(array.astype(np.float64) / scale)
    return np.clip(codes, -127, 127) * scale


def test_a_matrix_product_is_that_of_rounded_operands(tmp_path: Path) -> None:
    w, bias, x = weights(3, 5), weights(1, 3, seed=2), weights(8, 4, 5, seed=3)
    body = """
        x = external(shape = [4,5]); w = variable(shape = [3,5], label = 'w');
        b = variable(shape = [1,3], label = 'b'); y = linear(x, w, b);
    """
    path = document(tmp_path / "net", "x", body, {"w": w, "b": bias})
    graph = nnefc.quantize(path, x, observer="min-max")
    low, high = float(x.min()), float(x.max())
    scale = float(np.float32((high - low) / 255))
    units: Array = scale * (np.abs(w).max(axis=1) / np.float32(127)).astype(np.float32)
    codes: Array = np.round(bias / units)
    expected: Array = (
        activation(x[0], scale, round(-low / scale)) @ channels(w, 0).T + codes * units
    )
    y = evaluate(graph, {"x": x[0]}).outputs["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(nnefc.compile(graph)(x[0]), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(graph.variables["b_quantized"].data, codes)
    assert {v.type.dtype for v in graph.variables.values()} == {DType.INT8, DType.INT32}
    assert not {"w", "b"} & set(graph.variables)


@pytest.mark.parametrize(
    ("operation", "shape", "axis"),
    [
        ("conv(x, w, 0.0)", [6, 4, 3, 3], 0),
        ("conv(x, w, 0.0, groups = 0)", [4, 1, 3, 3], 0),
        ("deconv(x, w, 0.0)", [4, 6, 3, 3], 1),
        ("deconv(x, w, 0.0, groups = 2)", [4, 3, 3, 3], 1),
        ("deconv(x, w, 0.0, groups = 2)", [4, 1, 3, 3], 1),
        ("deconv(x, w, 0.0, groups = 0, output_shape = [1,2,5,5])", [4, 1, 3, 3], 1),
        ("deconv(x, w, 0.0, groups = 0)", [4, 1, 3, 3], 0),
        ("deconv(x, w, 0.0, groups = 4)", [4, 1, 3, 3], 0),
        ("matmul(x, w)", [1, 1, 5, 7], 3),
        ("matmul(x, w, transposeB = true)", [1, 1, 7, 5], 2),
        ("matmul(w, x)", [1, 1, 7, 5], 2),
        ("matmul(w, x, transposeA = true)", [1, 1, 5, 7], 3),
    ],
)
def test_scales_belong_to_channels_of_results(
    tmp_path: Path, operation: str, shape: list[int], axis: int
) -> None:
    """Scaling the indices of the axis scales whole channels of the result."""
    w, x = weights(*shape), weights(3, 1, 4, 5, 5, seed=4)
    body = f"""
        x = external(shape = [1,4,5,5]); w = variable(shape = {shape}, label = 'w');
        y = {operation};
    """
    path = document(tmp_path / "net", "x", body, {"w": w})
    reals = nnefc.import_model(path)
    (layer,) = layers_of(reals)
    assert channel_axis(layer.op, layer.weights[0]) == axis
    graph = nnefc.quantize(reals, x, observer="min-max")
    (stored,) = (v.data for v in graph.variables.values())
    assert stored is not None
    np.testing.assert_array_equal(np.abs(stored).max(axis=tuple({0, 1, 2, 3} - {axis})), 127)
    rounded = nnefc.import_model(
        document(tmp_path / "rounded", "x", body, {"w": channels(w, axis).astype("f4")})
    )
    low, high = float(x.min()), float(x.max())
    scale = float(np.float32((high - low) / 255))
    given = activation(x[1], scale, round(-low / scale)).astype(np.float32)
    expected = evaluate(rounded, {"x": given}).outputs["y"]
    y = evaluate(graph, {"x": x[1]}).outputs["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_computed_operands_are_codes_and_derived_weights_are_known(tmp_path: Path) -> None:
    body = """
        x = external(shape = [1,4,5]); w = variable(shape = [5,6], label = 'w');
        turned = transpose(w, axes = [1, 0]); doubled = mul(turned, 2.0);
        whole = unsqueeze(doubled, axes = [0]);
        q = matmul(x, whole, transposeB = true);
        s = matmul(q, q, transposeB = true);
        y = matmul(s, x);
    """
    w = weights(5, 6)
    path = document(tmp_path / "net", "x", body, {"w": w})
    graph = nnefc.quantize(path, weights(6, 1, 4, 5, seed=5), activations="int8")
    names = [op.name for op in graph.ops if op.name in ("quantize", "dequantize")]
    assert names.count("quantize") == 3, "x and q once each, and s"
    assert names.count("dequantize") == 4
    (codes,) = (v.data for v in graph.variables.values())
    assert codes is not None
    scales: Array = np.abs(2 * w.T).max(axis=1, keepdims=True) / 127
    np.testing.assert_array_equal(codes[0], np.round(channels(2 * w.T, 0) / scales))
    assert not any(op.name == "transpose" for op in graph.ops)


@pytest.mark.parametrize(
    ("operation", "filter_", "axis"),
    [
        ("conv(x, w, b)", [6, 4, 3, 3], 0),
        ("deconv(x, w, b)", [4, 6, 3, 3], 1),
        ("deconv(x, w, b, groups = 2)", [4, 3, 3, 3], 1),
        ("deconv(x, w, b, groups = 2)", [4, 1, 3, 3], 1),
        ("deconv(x, w, b, groups = 4)", [4, 1, 3, 3], 0),
    ],
)
def test_biases_have_the_scales_of_products(
    tmp_path: Path, operation: str, filter_: list[int], axis: int
) -> None:
    groups = 4 if "groups = 4" in operation else 2 if "groups = 2" in operation else 1
    outputs = filter_[0] if operation.startswith("conv") else filter_[1] * groups
    w, b, x = weights(*filter_), weights(1, outputs, seed=2), weights(3, 1, 4, 5, 5, seed=4)
    body = f"""
        x = external(shape = [1,4,5,5]); w = variable(shape = {filter_}, label = 'w');
        b = variable(shape = [1,{outputs}], label = 'b'); y = {operation};
    """
    path = document(tmp_path / "net", "x", body, {"w": w, "b": b})
    graph = nnefc.quantize(path, x, observer="min-max")
    largest = np.abs(w.astype(np.float64)).max(axis=tuple({0, 1, 2, 3} - {axis}))
    scale = (float(x.max()) - float(x.min())) / 255
    units = np.tile(largest / 127 * scale, outputs // largest.size)
    codes = graph.variables["b_quantized"].data
    assert codes is not None
    np.testing.assert_allclose(codes, b / units, rtol=1e-6, atol=0.5 + 1e-3)
    (op,) = (op for op in graph.ops if op.name in ("conv", "deconv"))
    found = evaluate(graph, {"x": x[0]}, keep="all").values[op.inputs[2]]
    np.testing.assert_allclose(found[0], codes[0] * units, rtol=1e-6)
    model = nnefc.compile(graph, strict_quantization=True)
    y = evaluate(graph, {"x": x[0]}).outputs["y"]
    np.testing.assert_allclose(model(x[0]), y, rtol=1e-5, atol=1e-5)


def test_large_biases_of_small_weights_fit_int32(tmp_path: Path) -> None:
    """A channel whose weights are almost 0 gets a larger scale."""
    w, b, x = weights(3, 5), weights(1, 3, seed=2), weights(8, 4, 5, seed=3)
    w[1] *= np.float32(1e-12)
    w[2] = 0
    body = """
        x = external(shape = [4,5]); w = variable(shape = [3,5], label = 'w');
        b = variable(shape = [1,3], label = 'b'); y = linear(x, w, b);
    """
    graph = nnefc.quantize(document(tmp_path / "net", "x", body, {"w": w, "b": b}), x)
    codes = graph.variables["b_quantized"].data
    assert codes is not None
    assert 2**29 < np.abs(codes[0, 1]) <= 2**30
    y = evaluate(graph, {"x": x[0]}).outputs["y"]
    np.testing.assert_allclose(y[:, 1:], np.tile(b[:, 1:], (4, 1)), rtol=1e-2)


RESIDUAL = """
    x = external(shape = [1,3,6,6]); w = variable(shape = [3,3,1,1], label = 'w');
    a = conv(x, w, 0.5); b = conv(a, w, 0.25); sum = add(a, b); r = relu(sum);
    p = max_pool(r, size = [1,1,2,2]); c = conv(p, w, 0.0); d = concat([c, p], axis = 1);
    m = mean_reduce(d, axes = [2,3]); f = squeeze(m, axes = [2,3]);
    v = variable(shape = [2,6], label = 'v'); y = linear(f, v, 0.0);
"""


def test_both_sides_of_sums_between_products_are_codes(tmp_path: Path) -> None:
    data = {"w": weights(3, 3, 1, 1), "v": weights(2, 6, seed=5)}
    path = document(tmp_path / "net", "x", RESIDUAL, data)
    samples = weights(4, 1, 3, 6, 6, seed=3)
    graph = nnefc.quantize(path, samples)
    rounded = [op.inputs[0].name for op in graph.ops if op.name == "quantize"]
    assert sorted(rounded) == ["a", "b", "c", "d", "f", "p", "x"]
    for name in ("add", "concat", "mean_reduce"):
        (op,) = (op for op in graph.ops if op.name == name)
        assert {v.op.name for v in op.inputs if v.op is not None} == {"dequantize"}
    kept = nnefc.quantize(path, samples, keep=["y", "c"])
    rounded = [op.inputs[0].name for op in kept.ops if op.name == "quantize"]
    assert sorted(rounded) == ["a", "x"], "the sum feeds reals alone"


@pytest.mark.parametrize("last", ["y = relu(s);", "t = softmax(s); y = matmul(t, t);"])
def test_other_sums_stay(tmp_path: Path, last: str) -> None:
    """Results of the graph, and what other operations read, are not rounded for products."""
    body = f"""
        x = external(shape = [4,4]); w = variable(shape = [4,4], label = 'w');
        a = matmul(x, w); s = add(x, a); {last}
    """
    graph = nnefc.quantize(
        document(tmp_path / "net", "x", body, {"w": weights(4, 4)}), weights(3, 4, 4, seed=3)
    )
    (op,) = (op for op in graph.ops if op.name == "add")
    assert [v.name for v in op.inputs] == ["x", "a"]


@pytest.mark.parametrize(
    ("layer", "shape", "parameters"),
    [
        ("conv(x, w, b)", [6, 4, 3, 3], [1, 6]),
        ("conv(x, w, 0.5, groups = 2)", [6, 2, 3, 3], [1, 6]),
        ("deconv(x, w, b, groups = 2)", [4, 3, 3, 3], [1, 6]),
        ("deconv(x, w, b)", [4, 6, 3, 3], [1, 1]),
    ],
)
def test_normalisations_become_parts_of_layers(
    tmp_path: Path, layer: str, shape: list[int], parameters: list[int]
) -> None:
    names = ("mean", "variance", "offset", "scale")
    body = "".join(f"{n} = variable(shape = {parameters}, label = '{n}');" for n in names)
    body += f"""
        x = external(shape = [1,4,5,5]); w = variable(shape = {shape}, label = 'w');
        b = variable(shape = [1,6], label = 'b'); a = {layer};
        n = batch_normalization(a, mean, variance, offset, scale, epsilon = 0.25); y = relu(n);
    """
    data = {n: weights(*parameters, seed=i) for i, n in enumerate(names)}
    data["variance"] = np.abs(data["variance"])
    data |= {"w": weights(*shape, seed=8), "b": weights(1, 6, seed=9)}
    reals = nnefc.import_model(document(tmp_path / "net", "x", body, data))
    folded = reals.clone()
    assert fold_normalizations(folded)
    assert {op.name for op in folded.ops if op.name not in ("variable", "constant")} == {
        layer.partition("(")[0],
        "relu",
    }
    x = weights(1, 4, 5, 5, seed=4)
    expected = evaluate(reals, {"x": x}).outputs["y"]
    np.testing.assert_allclose(
        evaluate(folded, {"x": x}).outputs["y"], expected, rtol=1e-5, atol=1e-5
    )
    assert [each.name for each in layers_of(folded)] == ["n"]


@pytest.mark.parametrize(
    "last",
    [
        "y = batch_normalization(a, 0.0, 1.0, x, 1.0, epsilon = 0.1);",
        "n = batch_normalization(a, 0.0, 1.0, 0.0, 1.0, epsilon = 0.1); y = add(n, a);",
        "y = batch_normalization(x, a, 1.0, 0.0, 1.0, epsilon = 0.1);",
    ],
    ids=["computed", "two users", "other operand"],
)
def test_other_normalisations_stay(tmp_path: Path, last: str) -> None:
    body = f"""
        x = external(shape = [1,4]); w = variable(shape = [4,4], label = 'w');
        a = linear(x, w, 0.0); {last}
    """
    path = document(tmp_path / "net", "x", body, {"w": weights(4, 4)})
    assert not fold_normalizations(nnefc.import_model(path))


def test_codes_are_left_alone() -> None:
    once = nnefc.quantize(DIGITS, weights(4, 1, 1, 8, 8))
    with pytest.raises(NnefError, match="quantization/model"):
        nnefc.quantize(once, weights(4, 1, 1, 8, 8))


def test_shared_weights_are_stored_once_and_other_readers_keep_reals(tmp_path: Path) -> None:
    body = """
        x = external(shape = [5,5]); w = variable(shape = [5,5], label = 'w');
        a = matmul(x, w); b = matmul(a, w); c = matmul(b, w, transposeB = true); y = add(c, w);
    """
    graph = nnefc.quantize(
        document(tmp_path / "net", "x", body, {"w": weights(5, 5)}), weights(5, 5)
    )
    assert sorted(graph.variables) == ["w", "w_quantized", "w_quantized_2"]


def test_products_of_integers_stay() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(DType.INT32, (2, 2)), "x")
    graph.add_output(build(graph, "matmul", [x, x]).output, "y")
    assert layers_of(graph) == []


def test_observed_values_are_those_of_the_reference() -> None:
    graph = nnefc.import_model(DIGITS)
    samples = [{"image": weights(1, 1, 8, 8, seed=i)} for i in range(3)]
    values = [op.output for op in graph.ops if op.name in ("conv", "max_pool")]
    values.append(graph.inputs[0])
    calls: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        calls.append((done, total, label))

    histograms = observe(graph, values, samples, progress)
    found = [evaluate(graph, sample, keep="all").values for sample in samples]
    for value, histogram in zip(values, histograms, strict=True):
        items = np.stack([each[value] for each in found])
        assert histogram.total == items.size
        np.testing.assert_allclose(
            [histogram.low, histogram.high], [items.min(), items.max()], rtol=1e-4, atol=1e-5
        )
    assert calls == [(0, 3, "samples"), (1, 3, "samples"), (2, 3, "samples"), (3, 3, "samples")]
