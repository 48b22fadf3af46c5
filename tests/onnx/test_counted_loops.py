"""Loops without a bound that stack results, in `InferenceSession` and the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.onnx import InferenceSession
from nnefc.onnx.backend import prepare
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results
from tests.helpers.onnx.text_models import parsed

TWO = """(float[N,2] x, float[1,1] limit, bool[1,1] first)
    => (float[N,2] y, float[K,N,2] z, int64[K] i, float[L,N,2] w)
    <bool t = {1}, float one = {1}, int64 most = {1000000000}> {
  h = Mul(x, one)
  start = Squeeze(first)
  y, z, i = Loop(most, start, h) <
    body = turn (int64 n, bool c, float[N,2] s)
        => (bool d, float[N,2] s2, float[N,2] r, int64 j) {
      s2 = Add(s, x)
      m = ReduceMax <keepdims = 0> (s2)
      e = Less(m, limit)
      d = Squeeze(e)
      r = Mul(s2, s2)
      j = Identity(n)
    }
  >
  q = ReduceSum <keepdims = 0> (z)
  y2, w = Loop(, t, h) <
    body = turn2 (int64 n, bool c, float[N,2] s) => (bool d, float[N,2] s2, float[N,2] r) {
      s2 = Add(s, one)
      m = ReduceMax <keepdims = 0> (s2)
      d = Less(m, q)
      r = Neg(s2)
    }
  >
}"""
"""The number of turns of the second loop depends on the stacked results of the first."""
FIXED = TWO.replace("N,2", "3,2")
CALLS: list[tuple[int, float, bool]] = [(3, 5.5, True), (2, 0.0, True), (4, 9, True), (3, 1, False)]


def arrays(rows: int, limit: float, first: bool) -> list[Any]:
    x = np.random.default_rng(rows).random((rows, 2), np.float32) + np.float32(0.3)
    return [x, np.full((1, 1), limit, np.float32), np.full((1, 1), first)]


def test_results(tmp_path: Path) -> None:
    made = parsed(TWO)
    session = InferenceSession(save(made, tmp_path / "net.onnx"))
    turns: set[int] = set()
    for call in CALLS:
        inputs = arrays(*call)
        want = onnxruntime_results(made, inputs)
        found = session.run(None, dict(zip(("x", "limit", "first"), inputs, strict=True)))
        assert len(found) == len(want)
        for y, expected in zip(found, want, strict=True):
            assert (len(y), y.dtype) == (len(expected), expected.dtype)
            if not expected.size:  # onnxruntime makes symbolic extents 0 without turns
                continue
            np.testing.assert_allclose(y, expected, rtol=1e-5)
        turns.add(len(want[1]))
    assert len(turns) == len(CALLS)
    assert 0 in turns
    assert [each.name for each in session.get_inputs()] == ["x", "limit", "first"]
    assert [each.name for each in session.get_outputs()] == ["y", "z", "i", "w"]
    with pytest.raises(NnefError, match="compiled in parts"):
        _ = session.model


def test_the_backend_and_fixed_extents() -> None:
    made, inputs = parsed(FIXED), arrays(*CALLS[0])
    for y, want in zip(prepare(made).run(inputs), onnxruntime_results(made, inputs), strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5)


def test_models_that_cannot_be_split(tmp_path: Path) -> None:
    """Random numbers would differ, and files have no parts."""
    path = save(parsed(FIXED), tmp_path / "net.onnx")
    with pytest.raises(NnefError, match=r"InferenceSession counts the turns") as caught:
        nnefc.compile(path)
    assert {each.rule for each in caught.value.errors} == {"onnx/turns"}
    random = FIXED.replace("r = Mul(s2, s2)", "g = RandomNormalLike(s2) r = Add(g, s2)")
    with pytest.raises(NnefError, match="onnx/turns"):
        InferenceSession(parsed(random).SerializeToString())
