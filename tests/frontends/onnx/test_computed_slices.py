"""Slices with bounds that are computed at run time, and operations on them, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results, reals

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


STEPPED = """<ir_version: 8, opset_import: ["": 17]>
graph (float[7, 2] x, int64[1] b, int64[1] e, INT[1] s) => (float[N, 2] y)
<int64[1] zero = {0}, int64[1] one = {1}> {
  PART
}"""
LEAST, MOST = -(2**63), 2**63 - 1
"""As an end of negative steps, onnxruntime takes the greatest number for the least one."""
BOUNDS = [(0, 7), (1, 6), (6, 0), (-1, -8), (5, 5), (2, -3), (-2, 1), (100, -100), (-100, 100)]


def check_slice(model: onnx.ModelProto, inputs: list[Array]) -> None:
    (y,) = reference_results(graph_for(model, inputs), inputs)
    (want,) = onnxruntime_results(model, inputs)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("bounds", [*BOUNDS, (MOST, LEAST + 8), (LEAST + 8, MOST - 8)])
@pytest.mark.parametrize("step", [1, 2, 3, 7, MOST, -1, -2, -3, -7, LEAST + 1])
def test_steps(bounds: tuple[int, int], step: int) -> None:
    """Known and computed steps."""
    inputs = [reals(7, 2), *(np.array([each]) for each in (*bounds, step))]
    text = STEPPED.replace("INT", "int64")
    check_slice(
        onnx.parser.parse_model(text.replace("PART", "y = Slice(x, b, e, zero, s)")), inputs
    )
    part = f"c = Constant <value = int64[1] {{{step}}}> () t = Slice(x, b, e, zero, c) y = Neg(t)"
    known = text.replace("PART", part)
    check_slice(onnx.parser.parse_model(known.replace(", INT[1] s", "")), inputs)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("step", [2, -1, -2])
def test_steps_through_counted_items(bounds: tuple[int, int], step: int) -> None:
    """The second slice counts from the end of the first one; its bounds are known."""
    part = f"""
      c = Constant <value = int64[1] {{{step}}}> ()
      f = Constant <value = int64[1] {{{bounds[0]}}}> ()
      l = Constant <value = int64[1] {{{bounds[1]}}}> ()
      w = Cast <to = 7> (s)
      t = Slice(x, b, e, zero, w)
      y = Slice(t, f, l, zero, c)"""
    model = onnx.parser.parse_model(STEPPED.replace("PART", part).replace("INT", "int32"))
    for first in ((1, 6, 1), (-2, 0, -1), (3, 3, 1)):
        numbers = [np.array([first[0]]), np.array([first[1]]), np.array([first[2]], np.int32)]
        check_slice(model, [reals(7, 2), *numbers])


@pytest.mark.parametrize("step", [2, -3])
def test_one_axis_of_several_has_a_computed_extent(step: int) -> None:
    """The numbers of the other axis are known, though each list as a whole is not."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    graph (float[7, 9] x, int64[1] b, int64[1] e, int64[1] s) => (float y)
    <int64[1] eight = {8}, int64[1] one = {1}> {
      from = Concat <axis = 0> (b, eight)
      to = Concat <axis = 0> (e, one)
      steps = Concat <axis = 0> (s, S)
      y = Slice(x, from, to, , steps)
    }"""
    minus = "<int64[1] eight = {8}, int64[1] minus = {-2},"
    known = onnx.parser.parse_model(
        text.replace("S)", "minus)").replace("<int64[1] eight = {8},", minus)
    )
    inputs = [reals(7, 9), *(np.array([each]) for each in (6, -100, step))]
    check_slice(known, inputs)
    with pytest.raises(NnefError, match="several extents"):
        graph_for(onnx.parser.parse_model(text.replace("S)", "s)")), inputs)


@pytest.mark.parametrize("start", [-1, 5])
def test_a_step_of_0_is_an_error_of_the_call(start: int, tmp_path: Path) -> None:
    text = STEPPED.replace("INT", "int64").replace("PART", "y = Slice(x, b, e, zero, s)")
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    compiled = nnefc.compile(path)
    numbers = [np.array([start]), np.array([-100]), np.array([-2])]
    x = reals(7, 2)
    y = compiled(x, *numbers)
    np.testing.assert_array_equal(y, x[start:None:-2])
    with pytest.raises(NnefError, match="index 7"):
        compiled(x, *numbers[:2], np.array([0]))
