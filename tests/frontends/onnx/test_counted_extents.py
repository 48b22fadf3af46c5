"""Tensors with data-dependent extents in chains of operators, against onnxruntime.

Detectors select boxes by their scores, suppress, slice and gather, and pool regions of the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import nnefc
from nnefc.onnx import InferenceSession
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

Array = np.ndarray[Any, Any]

MODEL = """<ir_version: 8, opset_import: ["": 17]>
graph (float[6, 4] x, float[6] scores, float[4, 5] w) => (RESULT y)
<int64 none = {0}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},
 int64[1] last = {-1}, int64[1] many = {100}, int64[2] ends = {-1, 0}, int64[2] flat = {-1, 2},
 float[1] half = {0.5},
 int64[1] all = {-1}, int64[3] pad = {0, -1, 1}, int64[1] four = {4},
 int64 step = {2}, int64[1] six = {6}, int64[6] order = {5, 3, 1, 0, 2, 4}> {
  likely = Greater(scores, half)
  found = NonZero(likely)
  which = Squeeze(found, zero)
  part = Gather(x, which)
  OPERATION
}"""

FLOATS = [
    "y = Gather(part, ends)",
    "i = Unsqueeze(which, one) y = GatherND(x, i)",
    "j = Neg(which) t = Gather(x, j) y = Add(t, t)",
    "y = Softmax <axis = 0> (part)",
    "y = MatMul(part, w)",
    "y = Gemm(part, w)",
    "t = Transpose(part) y = MatMul(t, part)",
    "s = ConstantOfShape <value = float[1] {2.0}> (four) y = BatchNormalization(part, s, s, s, s)",
    "t = Unsqueeze(part, one) y = MaxPool <kernel_shape = [2]> (t)",
    "t = Unsqueeze(part, one) y = AveragePool <kernel_shape = [2], pads = [1, 0]> (t)",
    "a = Shape(part) k = Slice(a, zero, one) m = Min(k, two) y, i = TopK <axis = 0> (part, m)",
    "y, i = TopK <axis = 0, largest = 0> (part, one)",
    "y = Concat <axis = 0> (part, x, part)",
    "y = Slice(part, zero, two, zero)",
    "y = Slice(part, one, many, zero)",
    "y = Slice(part, last, many, zero)",
    "y = Slice(part, zero, last, zero)",
    "y = Reshape(part, flat)",
    "y = Reshape(part, all)",
    "t = Reshape(part, pad) y = Neg(t)",
    "a = Shape(part) y = Expand(half, a)",
    "a = Shape(part) y = ConstantOfShape(a)",
    "c = Slice(part, zero, one, one) a = Shape(c) z = ConstantOfShape(a)"
    " y = Concat <axis = 1> (z, part)",
    "again = Greater(part, half) f = NonZero(again) r = Gather(f, none) y = Gather(part, r)",
    "p = Slice(likely, zero, many) k = Gather(likely, which) y = Compress <axis = 0> (part, k)",
]
INTEGERS = [
    "y = Shape(part)",
    "y = Size(part)",
    "a = Shape <end = 1> (part) n = Squeeze(a) d = Squeeze(one) y = Range(none, n, d)",
    "a = Shape <end = 1> (part) n = Squeeze(a) d = Squeeze(one) q = Range(none, n, d)"
    " j = Sub(q, n) y = Gather(which, j)",
    "y = ArgMax <axis = 0, keepdims = 0> (part)",
    "a = Shape(part) m = Mul(a, one) k = Equal(m, last) o = ConstantOfShape <value = int64[1] {7}>"
    " (two) y = Where(k, o, m)",
    "again = Less(part, half) y = NonZero(again)",
    "a = Shape(part) y = Add(a, two)",
    "a = Shape(part) y = Sub(two, a)",
    "a = Shape(part) y = Div(a, two)",
    "a = Shape(part) b = Neg(a) y = Div(b, two)",
    "a = Shape(part) b = Mul(a, a) y = Mod(b, two)",
    "a = Shape(part) y = Min(a, two)",
    "a = Shape(part) b = Max(a, two) y = ReduceSum <keepdims = 0> (b)",
    "a = Shape(part) y = ReduceMax <keepdims = 0> (a)",
    "a = Shape(part) c = Less(a, two) y = Cast <to = 7> (c)",
    "a = Shape(part) c = Equal(a, four) y = Where(c, two, a)",
    "a = Shape(part) c = Greater(a, last) y = Cast <to = 7> (c)",
    "a = Shape <end = 1> (part) b = Sub(a, one) y = Gather(order, b)",
    "a = Shape <end = 1> (part) y = Slice(order, zero, a)",
    "a = Shape <end = 1> (part) y, i = TopK(order, a)",
    "a = Shape <end = 1> (part) b = Sub(six, a) y, i = TopK(which, b)",
    "a = Shape <end = 1> (part) n = Squeeze(a) t = Constant <value = bool {1}> ()"
    " y = Loop(n, t, none) <body = turn (int64 i, bool c, int64 s) => (bool d, int64 e)"
    " {d = Identity(c) e = Add(s, step)}>",
    "a = Shape <end = 1> (part) n = Squeeze(a) d = Squeeze(one) e = Squeeze(two) h = Div(n, e)"
    " y = Range(none, h, d)",
    "a = Shape <end = 1> (part) n = Squeeze(a) d = Squeeze(one) y = Add(n, d)",
    "a = Shape <end = 1> (part) n = Squeeze(a) e = Squeeze(two) s = Squeeze(six)"
    " y = Range(n, s, e)",
    "a = Shape <end = 1> (part) b = Sub(six, a) y = ConstantOfShape <value = int64[1] {5}> (b)",
]
SYMBOLIC = ["Add(a, b)", "Sub(b, a)", "Mul(a, b)", "Max(a, b)", "Min(b, a)", "Div(b, a)"]


def check(model: onnx.ModelProto, inputs: list[Array]) -> None:
    results = reference_results(graph_for(model, inputs), inputs)
    for y, want in zip(results, onnxruntime_results(model, inputs), strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operation", "result"),
    [*((each, "float") for each in FLOATS), *((each, "int64") for each in INTEGERS)],
)
def test_results(operation: str, result: str) -> None:
    scores = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.6], np.float32)
    text = MODEL.replace("OPERATION", operation).replace("RESULT", result)
    check(onnx.parser.parse_model(text), [reals(6, 4), scores, reals(4, 5)])


@pytest.mark.parametrize("operation", SYMBOLIC)
def test_numbers_with_symbols(operation: str, tmp_path: Path) -> None:
    """The number of items, and an extent that is a symbol."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
    graph (float[6] x, float[N, 3] other) => (int64[1] y, float[N, 3] z) <float half = {0.0}> {
      likely = Greater(x, half)
      found = NonZero(likely)
      a = Shape <start = 1> (found)
      b = Shape <end = 1> (other)
      y = OPERATION
      z = Neg(other)
    }""".replace("OPERATION", operation)
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    compiled = nnefc.compile(path)
    for rows in (2, 5, 9):
        inputs = [reals(6, seed=rows), reals(rows, 3)]
        assert (inputs[0] > 0).any()
        (want, _) = onnxruntime_results(model, inputs)
        np.testing.assert_array_equal(compiled(*inputs)[0], want)


@pytest.mark.parametrize(
    "operation",
    [
        "a = Shape <end = 1> (part) p = Concat <axis = 0> (zero, a) y = Pad(order, p)",
        "a = Shape <end = 1> (part) y = Tile(order, a)",
    ],
)
def test_numbers_that_must_be_known_are_refused(operation: str) -> None:
    scores = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.6], np.float32)
    text = MODEL.replace("OPERATION", operation).replace("RESULT", "int64")
    with pytest.raises(NnefError, match="this tensor is computed from its inputs"):
        graph_for(onnx.parser.parse_model(text), [reals(6, 4), scores, reals(4, 5)])


DETECTOR = """<ir_version: 8, opset_import: ["": 17]>
graph (float[12, 4] corners, float[12] scores, float[1, 3, 16, 16] features)
  => (float[] boxes, float[] best, float[] pooled, float[] masks)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] five = {5},
 int64[1] most = {100}, float[1] half = {0.5}, float[1] overlap = {0.4}, int64 none = {0}> {
  likely = Greater(scores, half)
  found = NonZero(likely)
  order = Transpose <perm = [1, 0]> (found)
  which = Gather <axis = 1> (order, none)
  chosen = Gather(corners, which)
  chosen_scores = Gather(scores, which)
  boxes3 = Unsqueeze(chosen, zero)
  axes = Concat <axis = 0> (zero, one)
  scores3 = Unsqueeze(chosen_scores, axes)
  rows = NonMaxSuppression(boxes3, scores3, most, overlap)
  column = Gather <axis = 1> (rows, two)
  kept = Squeeze(column, one)
  first = Slice(kept, zero, five, zero)
  boxes = Gather(chosen, first)
  best = Gather(chosen_scores, first)
  extents = Shape(boxes)
  number = Slice(extents, zero, one)
  images = ConstantOfShape <value = int64[1] {0}> (number)
  pooled = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2>
    (features, boxes, images)
  filtered = Conv <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> (pooled, filter)
  masks = Relu(filtered)
}"""


@pytest.mark.parametrize("threshold", [0.0, 0.4, 0.8])
def test_detector(threshold: float) -> None:
    generator = np.random.default_rng(0)
    model = onnx.parser.parse_model(DETECTOR)
    filters = generator.normal(size=(4, 3, 2, 2)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(filters, "filter"))
    low = generator.uniform(0, 8, (12, 2))
    corners = np.concatenate([low, low + generator.uniform(3, 8, (12, 2))], 1).astype(np.float32)
    scores = generator.permutation(np.linspace(threshold, 0.9, 12)).astype(np.float32)
    features = generator.normal(size=(1, 3, 16, 16)).astype(np.float32)
    inputs = [corners, scores, features]
    check(model, inputs)
    compiled = InferenceSession(model.SerializeToString())
    names = ("corners", "scores", "features")
    results = compiled.run(None, dict(zip(names, inputs, strict=True)))
    for y, want in zip(results, onnxruntime_results(model, inputs), strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
