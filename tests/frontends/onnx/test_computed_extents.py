"""Ranges and shapes with extents that a run computes, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results, reals

MODEL = """<ir_version: 8, opset_import: ["": 18]>
graph (float[6] x, int64[2] n, float[3] r) => (TYPE y)
<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 nine = {9}, int64 minus = {-2},
 int64[1] first = {0}, int64[1] second = {1}, int64[1] three = {3}, float f0 = {0.0},
 float f1 = {1.0}, float f7 = {7.3}, float half = {0.3}, int64[1] last = {-1}> {
  total = ReduceSum <keepdims = 0> (r)
  share = Sigmoid(total)
  tens = Mul(share, f7)
  whole = Floor(tens)
  size = Cast <to = 7> (whole)
  number = Gather(n, zero)
  other = Gather(n, one)
  small = Min(number, nine)
  OPERATION
}"""
INTEGERS = [
    "y = Range(zero, small, one)",
    "y = Range(minus, small, two)",
    "low = Max(other, minus) y = Range(nine, low, minus)",
    "y = Range(zero, size, one)",
    "step = Max(other, one) y = Range(zero, small, step)",
    "s = Clip(other, minus, two) low = Neg(nine) bottom = Max(number, low)"
    " top = Min(bottom, nine) y = Range(top, zero, s)",
    "y = ArgMax <axis = 0, keepdims = 0> (x) q = Range(zero, y, one)",
    "i = ArgMax <axis = 0, keepdims = 0> (x) y = Range(zero, i, one)",
    "u = Reshape(size, last) y = ConstantOfShape <value = int64[1] {5}> (u)",
    "u = Reshape(small, last) w = Max(u, first) s = Concat <axis = 0> (w, three)"
    " y = ConstantOfShape <value = int64[1] {5}> (s)",
    "likely = Greater(x, f0) found = NonZero(likely) a = Shape <start = 1> (found)"
    " f = Cast <to = 1> (a) g = Mul(f, half) h = Ceil(g) k = Cast <to = 7> (h)"
    " e = Squeeze(k) y = Range(zero, e, one)",
]
REALS = [
    "y = Range(f0, tens, half)",
    "y = Range(f1, whole, f1)",
    "big = Add(half, share) y = Range(f0, f7, big)",
    "u = Reshape(size, last) y = Expand(half, u)",
    "u = Reshape(small, last) w = Max(u, second) s = Concat <axis = 0> (three, w)"
    " y = Expand(half, s)",
]


def model_of(operation: str, type_: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL.replace("OPERATION", operation).replace("TYPE", type_))


def arrays(*numbers: int, seed: int = 0) -> list[Array]:
    return [reals(6, seed=seed), np.array(numbers), 2 * reals(3, seed=seed)]


@pytest.mark.parametrize(
    ("operation", "type_"),
    [*((each, "int64") for each in INTEGERS), *((each, "float") for each in REALS)],
)
@pytest.mark.parametrize("seed", range(5))
def test_results(operation: str, type_: str, seed: int) -> None:
    numbers = [(4, 2), (100, 3), (-3, -2), (5, 1), (9, -100)][seed]
    inputs = arrays(*numbers, seed=seed)
    model = model_of(operation, type_)
    results = reference_results(graph_for(model, inputs), inputs)
    for y, want in zip(results, onnxruntime_results(model, inputs), strict=True):
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ("y = Range(zero, number, one)", "Range with result 'y': an extent .* has no known bound"),
        ("e = Exp(total) w = Cast <to = 7> (e) y = Range(zero, w, one)", "no known bound"),
        ("s = Clip(other, minus, two) y = Range(zero, small, s)", "no known bound"),
        ("y = ConstantOfShape(n)", "'n' at run time"),
        (
            "a = Clip(n, zero, nine) s = Concat <axis = 0> (a) y = ConstantOfShape(s)",
            "several extents",
        ),
    ],
)
def test_what_has_no_bound_is_refused(operation: str, text: str) -> None:
    with pytest.raises(NnefError, match=text):
        graph_for(model_of(operation, "int64"), arrays(4, 2))


def test_bounds_leave_room_for_rounding(tmp_path: Path) -> None:
    """10 times the float32 next to 0.7 is less than 7, but becomes 7."""
    operation = """cap = Constant <value = float {0.7}> () ten = Constant <value = float {10.0}> ()
      big = Abs(total) more = Add(big, f1) m = Min(more, cap) p = Mul(m, ten) w = Floor(p)
      z = Cast <to = 7> (w) u = Reshape(z, last)
      y = ConstantOfShape <value = int64[1] {5}> (u)"""
    model = model_of(operation, "int64")
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (want,) = onnxruntime_results(model, arrays(4, 2))
    assert want.size == 7
    with pytest.warns(nnefc.NnefWarning, match="declared"):
        compiled = nnefc.compile(path)
    np.testing.assert_array_equal(compiled(*arrays(4, 2)), want)


def test_large_bounds_are_refused() -> None:
    operation = "big = Constant <value = int64 {99999999}> () m = Min(number, big)"
    with pytest.raises(NnefError, match="has the bound 99,999,999") as error:
        graph_for(model_of(operation + " y = Range(zero, m, one)", "int64"), arrays(4, 2))
    assert "Min(n, 100)" in str(error.value.errors[0].hint)


def test_many_shared_operands_take_little_time() -> None:
    lines = [f"v{i + 1} = Add(v{i}, v{i})" for i in range(60)]
    operation = "v0 = Min(number, nine) " + " ".join(lines) + " y = Range(zero, v60, one)"
    with pytest.raises(NnefError, match="an extent"):
        graph_for(model_of(operation, "int64"), arrays(4, 2))
