"""Loops and branches as ONNX writes them, against the models and onnxruntime."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.numpy_helper import from_array
from typer.testing import CliRunner

import nnefc
from nnefc.cli import app
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results, reals
from tests.helpers.onnx.text_models import parsed

onnx: Any = import_module("onnx")

WHILE = """(float[2,3] x, float limit) => (float[2,3] y, int64 n) {
  t = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  two = Constant <value = float {2.0}> ()
  a = Abs(x)
  m = ReduceMax <keepdims = 0> (a)
  go = Less(m, limit)
  y, n = Loop (, go, x, zero) <
    body = turn (int64 i, bool d, float[2,3] s, int64 k) => (bool e, float[2,3] s2, int64 k2) {
      one = Constant <value = int64 {1}> ()
      s2 = Mul(s, two)
      b = Abs(s2)
      c = ReduceMax <keepdims = 0> (b)
      e = Less(c, limit)
      k2 = Add(k, one)
    }
  >
}"""
SCAN = """(float[5,2,3] x, float[2,3] h) => (float[2,3] y, float[5,2,3] z) {
  y, z = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
    body = step (float[2,3] s, float[2,3] v) => (float[2,3] s2, float[2,3] o) {
      p = MatMul(s, w)
      q = Add(p, v)
      s2 = Tanh(q)
      o = Neg(s2)
    }
  > (h, x)
}"""
TURNS = """(float[2,3] x) => (float[2,3] y, float[4,2,3] z) {
  M = Constant <value = int64 {4}> ()
  t = Constant <value = bool {1}> ()
  y, z = Loop (M, t, x) <
    body = turn (int64 i, bool d, float[2,3] s) => (bool e, float[2,3] s2, float[2,3] o) {
      f = Cast <to = 1> (i)
      p = MatMul(s, w)
      s2 = Add(p, f)
      o = Identity(s)
      e = Identity(d)
    }
  >
}"""
BRANCHES = """(float[2,3] x) => (float[2,3] y) {
  zero = Constant <value = float {0.0}> ()
  total = ReduceSum <keepdims = 0> (x)
  c = Greater(total, zero)
  y = If (c) <
    then_branch = a () => (float[2,3] p) { m = MatMul(x, w) p = Relu(m) },
    else_branch = b () => (float[2,3] p) {
      h = Constant <value = int64 {3}> ()
      t = Constant <value = bool {1}> ()
      p = Loop (h, t, x) <
        body = turn (int64 i, bool d, float[2,3] s) => (bool e, float[2,3] s2) {
          q = MatMul(s, w)
          s2 = Tanh(q)
          e = Identity(d)
        }
      >
    }
  >
}"""
LAYER = """(float[N,2,3] x) => (float[N,1,2,3] y) {
  y = LSTM <hidden_size = 3> (x, wx, wh)
}"""
CASES: dict[str, tuple[str, list[list[Array]], list[str]]] = {
    "while": (WHILE, [[reals(2, 3), np.array(n, np.float32)] for n in (0, 3, 1e6)], ["Loop"]),
    "scan": (SCAN, [[reals(5, 2, 3), reals(2, 3)]], ["Scan"]),
    "turns": (TURNS, [[reals(2, 3)]], ["Scan"]),
    "branches": (BRANCHES, [[reals(2, 3) + np.float32(n)] for n in (-2, 2)], ["If"]),
    "layer": (LAYER, [[reals(n, 2, 3)] for n in (1, 2, 6)], ["Scan"]),
}


def convert(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, tmp_path: Path) -> None:
    text, calls, kinds = CASES[name]
    source = parsed(text, 17)
    weights = {"w": reals(3, 3), "wx": reals(1, 12, 3), "wh": reals(1, 12, 3, seed=1)}
    weights = {key: x for key, x in weights.items() if key in text}
    source.graph.initializer.extend(from_array(x, key) for key, x in weights.items())
    net, made = save(source, tmp_path / "net.onnx"), tmp_path / "made.onnx"
    result = convert(net, "-o", made, "--check")
    assert result.exit_code == 0, result.output or result.exception
    written = onnx.load(str(made))
    onnx.checker.check_model(written, full_check=True)
    found = {node.op_type for node in written.graph.node}
    assert found >= {*kinds}
    model = nnefc.compile(made)
    for inputs in calls:
        wanted = onnxruntime_results(source, inputs)
        own = model(*inputs)
        for results in (onnxruntime_results(written, inputs), [own] if len(wanted) == 1 else own):
            for y, want in zip(results, wanted, strict=True):
                assert y.shape == want.shape
                np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
