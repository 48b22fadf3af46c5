"""Slices with bounds that are computed at run time, and operations on them, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

MODEL = """<ir_version: 8, opset_import: ["": 17]>
graph (float[5, 3] x, int64[1] b, int64[1] e, float[3] w) => (float y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[3] order = {2, 0, 1}> {
  part = Slice(x, b, e, zero)
  OPERATION
}"""


def model_of(operation: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL.replace("OPERATION", operation))


@pytest.mark.parametrize("bounds", [(0, 5), (1, 3), (-3, -1), (2, 100), (3, 1), (-100, 2)])
@pytest.mark.parametrize(
    "operation",
    [
        "y = Neg(part)",
        "y = Add(part, w)",
        "y = Transpose <perm = [1, 0]> (part)",
        "y = Unsqueeze(part, one)",
        "y = Gather <axis = 1> (part, order)",
        "y = Slice(part, zero, one, one)",
        "y = ReduceSum <keepdims = 0> (part, zero)",
        "y = ReduceSum <keepdims = 1> (part)",
        "y = ReduceMax <axes = [1], keepdims = 0> (part)",
        "c = Concat <axis = 1> (part, part) y = ReduceSum <keepdims = 0> (c, one)",
    ],
)
def test_results(operation: str, bounds: tuple[int, int]) -> None:
    inputs = [reals(5, 3), *(np.array([each]) for each in bounds), reals(3)]
    model = model_of(operation)
    (y,) = reference_results(graph_for(model, inputs), inputs)
    (want,) = onnxruntime_results(model, inputs)
    assert y.shape == want.shape
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operation", ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_reductions_of_the_valid_items(operation: str) -> None:
    inputs = [reals(5, 3), np.array([1]), np.array([4]), reals(3)]
    model = model_of(f"y = {operation} <axes = [0], keepdims = 1> (part)")
    (y,) = reference_results(graph_for(model, inputs), inputs)
    (want,) = onnxruntime_results(model, inputs)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_indices_may_be_sliced_at_run_time() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    graph (float[9, 4] x, int64[6] i, int64[1] b, int64[1] e) => (float y) {
      part = Slice(i, b, e)
      rows = Gather <axis = 0> (x, part)
      y = ReduceSum <keepdims = 0> (rows)
    }""")
    inputs = [reals(9, 4), np.array([8, 0, 3, 3, 5, 1]), np.array([1]), np.array([4])]
    (y,) = reference_results(graph_for(model, inputs), inputs)
    np.testing.assert_allclose(y, inputs[0][[0, 3, 3]].sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "operation",
    [
        "n = Constant <value = int64 {0}> () y = CumSum(part, n)",
        "t = Transpose(x) y = MatMul(t, part)",
    ],
)
def test_operations_that_would_compute_with_other_items_are_refused(operation: str) -> None:
    inputs = [reals(5, 3), np.array([1]), np.array([3]), reals(3)]
    with pytest.raises(NnefError, match="data-dependent extent"):
        graph_for(model_of(operation), inputs)
