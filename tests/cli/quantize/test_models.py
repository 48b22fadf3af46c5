"""`nnefc quantize` of models with symbols, counted results, and codes of their own."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.numpy_helper import from_array

import nnefc
from nnefc import DynamicModel
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results, reals
from tests.helpers.onnx.text_models import parsed

onnx: Any = import_module("onnx")
BATCHES = """(float[N,2,6,6] x) => (float[N,5] y) {
  c = Conv <pads = [1, 1, 1, 1]> (x, w)
  r = Relu(c)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  y = MatMul(f, m)
}"""
DETECTOR = """(float[N,3,4,4] x) => (float[N,3,8,8] grown, int64[4,K] where, float[N,3,4,4] z) {
  c = Conv(x, w)
  scales = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
  grown = Resize <mode = "linear"> (c, , scales)
  zero = Constant <value = float {0.0}> ()
  positive = Greater(c, zero)
  where = NonZero(positive)
  index = Constant <value = int64[1,1] {0}> ()
  first = Constant <value_ints = [0]> ()
  row = Gather(c, first)
  z = ScatterND <reduction = "add"> (c, index, row)
}"""
TURNED = """(float[2,4] x) => (float[2,3] y, float[2,3] z) {
  wide = DequantizeLinear <axis = 0> (codes, scales)
  turned = Transpose <perm = [1, 0]> (wide)
  y = MatMul(x, turned)
  z = MatMul(x, plain)
}"""


def with_weights(text: str, **arrays: Array) -> Any:
    made = parsed(text, 17)
    made.graph.initializer.extend(from_array(x, name) for name, x in arrays.items())
    return made


def quantize(cli: Cli, made: Any, samples: dict[str, Array], output: Path, *more: Any) -> Any:
    """The facts that the command prints."""
    path = save(made, output.parent / "net.onnx")
    np.savez(output.parent / "samples.npz", **samples)  # pyright: ignore[reportArgumentType]
    data = ("--data", output.parent / "samples.npz", "--observer", "min-max")
    shown = cli("quantize", path, *data, "-o", output, "--json", *more)
    assert shown.status == 0, shown.err
    return json.loads(shown.out)


def test_symbols_stay_symbols(cli: Cli, tmp_path: Path) -> None:
    made = with_weights(BATCHES, w=reals(4, 2, 3, 3, seed=1), m=reals(4, 5, seed=2))
    x = reals(7, 2, 6, 6)
    facts = quantize(cli, made, {"x": x}, tmp_path / "open.onnx")
    assert facts["samples"] == 7, "axis 0 of an array has samples"
    quantize(cli, made, {"x": x}, tmp_path / "fixed.onnx", "--symbol", "N=1")
    written, fixed = (onnx.load(str(tmp_path / f"{n}.onnx")) for n in ("open", "fixed"))
    (value,) = written.graph.input
    assert value.type.tensor_type.shape.dim[0].dim_param == "N"
    (found,) = onnxruntime_results(written, [x])
    one_by_one = [onnxruntime_results(fixed, [each[None]])[0] for each in x]
    np.testing.assert_allclose(found, np.concatenate(one_by_one), rtol=1e-5, atol=1e-6)
    (real,) = onnxruntime_results(made, [x])
    assert 0 < np.abs(found - real).max() < 0.05 * np.abs(real).max()
    quantize(cli, made, {"x": x}, tmp_path / "net.nnef.tgz")
    model = nnefc.compile(tmp_path / "net.nnef.tgz")
    assert isinstance(model, DynamicModel)
    np.testing.assert_allclose(model(x), found, rtol=1e-4, atol=1e-4)


def test_resampling_scatters_and_counted_results(cli: Cli, tmp_path: Path) -> None:
    made = with_weights(DETECTOR, w=reals(3, 3, 1, 1, seed=1))
    x = reals(5, 3, 4, 4)
    facts = quantize(cli, made, {"x": x}, tmp_path / "q.onnx")
    rows = [row["layer"] for row in facts["layers"]]
    assert rows == ["c", "grown", "z"], "counted results have no ratio"
    found = onnxruntime_results(onnx.load(str(tmp_path / "q.onnx")), [x])
    expected = onnxruntime_results(made, [x])
    for got, want in zip(found[::2], expected[::2], strict=True):
        assert got.shape == want.shape
        assert 0 < np.abs(got - want).max() < 0.03 * np.abs(want).max()
    assert abs(found[1].shape[1] - expected[1].shape[1]) < 0.05 * expected[1].shape[1]


def test_weights_in_codes_stay_as_they_are(cli: Cli, tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(-128, 127, (3, 4)).astype(np.int8)
    scales = np.array([0.02, 0.5, 0.001], np.float32)
    plain = reals(4, 3, seed=3)
    made = with_weights(TURNED, codes=codes, scales=scales, plain=plain)
    facts = quantize(cli, made, {"x": reals(2, 4)}, tmp_path / "q.onnx")
    written = onnx.load(str(tmp_path / "q.onnx"))
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in written.graph.initializer}
    int8 = {name: x for name, x in stored.items() if x.dtype == np.int8 and x.size == 12}
    assert sorted(int8) == ["codes", "plain_quantized"]
    np.testing.assert_array_equal(int8["codes"], codes)
    rounded = [node.op_type for node in written.graph.node].count("QuantizeLinear")
    assert rounded == 1, "x alone"
    # codes and scales, the zero point as a scalar, and reals
    assert facts["weight_bytes_before"] == pytest.approx(12 + 12 + 4 * 12, abs=4)
    assert facts["weight_bytes"] == pytest.approx(2 * (12 + 12) + 8, abs=8)


SQUARES = "(float[N,S] x) => (float[N,S] y) { t = Transpose(x) s = MatMul(x, t) y = MatMul(s, x) }"


def test_samples_that_do_not_tell_a_shape(cli: Cli, tmp_path: Path) -> None:
    path = save(parsed(SQUARES), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", z=np.ones((2, 3)))
    shown = cli("quantize", path, "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx")
    assert shown.status == 1
    assert "--shape x=EXTENTS" in shown.err
    np.savez(tmp_path / "x.npz", x=reals(4, 3, 5))
    options = ("--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx", "--json")
    assert json.loads(cli("quantize", path, *options).out)["samples"] == 4
