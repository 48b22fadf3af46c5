"""ONNX files of models with symbols, against the models themselves and onnxruntime."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import nnefc
from nnefc import DynamicModel
from nnefc.cli import app
from nnefc.emit.convert.onnx.model import onnx_model_of
from nnefc.support.errors import Diagnostics, NnefError
from tests.helpers.onnx.evaluate import source_of
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import Array, onnxruntime_results, reals
from tests.helpers.onnx.text_models import parsed

onnx: Any = import_module("onnx")

SIMPLE = """(float[B,S,8] x, float[B,P,8] past) => (float[B,T,8] y, float[M,8] z)
{
  joined = Concat <axis = 1> (past, x)
  split = Constant <value_ints = [0, -1, 2, 4]> ()
  heads = Reshape(joined, split)
  turned = Transpose <perm = [0, 2, 1, 3]> (heads)
  keys = Transpose <perm = [0, 2, 3, 1]> (heads)
  scores = MatMul(turned, keys)
  soft = Softmax(scores)
  mixed = MatMul(soft, turned)
  back = Transpose <perm = [0, 2, 1, 3]> (mixed)
  whole = Constant <value_ints = [0, -1, 8]> ()
  y = Reshape(back, whole)
  one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> ()
  s = Shape <start = 1, end = 2> (joined)
  half = Div(s, two)
  rest = Slice(y, half, s, one)
  e = Constant <value_ints = [-1, 8]> ()
  z = Reshape(rest, e)
}"""
CALLS = [(1, 3, 4), (2, 1, 6), (3, 5, 2)]


def inputs_of(call: tuple[int, int, int]) -> list[Array]:
    batch, new, past = call
    return [reals(batch, new, 8), reals(batch, past, 8, seed=1)]


def convert(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symbols")
    save(parsed(SIMPLE, 17), folder / "net.onnx")
    result = convert(folder / "net.onnx", "-o", folder / "made.onnx", "--check")
    assert result.exit_code == 0, result.output
    return folder / "made.onnx"


def test_symbols_are_named_dimensions(written: Path) -> None:
    made = onnx.load(str(written))
    onnx.checker.check_model(made, full_check=True)
    dims = [
        [d.dim_param or d.dim_value for d in each.type.tensor_type.shape.dim]
        for each in (*made.graph.input, *made.graph.output)
    ]
    assert dims[:3] == [["B", "S", 8], ["B", "P", 8], ["B", "P + S", 8]]
    model = nnefc.compile(written)
    assert isinstance(model, DynamicModel)
    assert "past: [B,P,8]" in repr(model)


@pytest.mark.parametrize("call", CALLS)
def test_results_are_those_of_the_model(written: Path, call: tuple[int, int, int]) -> None:
    source = parsed(SIMPLE, 17)
    inputs = inputs_of(call)
    expected = onnxruntime_results(source, inputs)
    model = nnefc.compile(written)
    results = [onnxruntime_results(onnx.load(str(written)), inputs), list(model(*inputs))]
    for found in results:
        for y, want in zip(found, expected, strict=True):
            assert y.shape == want.shape
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_values_of_symbols_are_constants(tmp_path: Path) -> None:
    net = save(parsed(SIMPLE, 17), tmp_path / "net.onnx")
    made = tmp_path / "made.onnx"
    result = convert(net, "-o", made, "--symbol", "B=2", "--symbol", "P=3", "--check")
    assert result.exit_code == 0, result.output
    (x, past) = onnx.load(str(made)).graph.input
    assert [d.dim_param for d in x.type.tensor_type.shape.dim] == ["", "S", ""]
    assert [d.dim_value for d in past.type.tensor_type.shape.dim] == [2, 3, 8]


MEAN = """(float[N,4] x) => (float[4] y) {
  axes = Constant <value_ints = [0]> ()
  n = Shape <end = 1> (x)
  f = Cast <to = 1> (n)
  t = ReduceSum <keepdims = 0> (x, axes)
  y = Div(t, f)
}"""
SUMS = """(float[N,4] x) => (float[N,4] y) {
  axis = Constant <value_int = 0> ()
  y = CumSum(x, axis)
}"""


def test_extents_become_reals(tmp_path: Path) -> None:
    net, made = save(parsed(MEAN, 17), tmp_path / "net.onnx"), tmp_path / "made.onnx"
    result = convert(net, "-o", made, "--check")
    assert result.exit_code == 0, result.output
    for rows in (2, 5):
        (y,) = onnxruntime_results(onnx.load(str(made)), [reals(rows, 4)])
        np.testing.assert_allclose(y, reals(rows, 4).mean(0), rtol=1e-5, atol=1e-6)


def test_values_that_decide_must_be_given(tmp_path: Path) -> None:
    """The steps of a cumulative sum depend on the extent."""
    net, made = save(parsed(SUMS, 17), tmp_path / "net.onnx"), tmp_path / "made.onnx"
    result = convert(net, "-o", made)
    assert isinstance(result.exception, NnefError)
    assert "--symbol N=VALUE" in str(result.exception)
    assert not made.exists()
    assert convert(net, "-o", made, "--symbol", "N=5", "--check").exit_code == 0


COUNTED = """(float[5,2] x) => (float[N,2] y) {
  zero = Constant <value = float {0.0}> ()
  f = ReduceMax <axes = [1], keepdims = 0> (x)
  g = Greater(f, zero)
  y = Compress <axis = 0> (x, g)
}"""


def test_counted_results_are_cut(tmp_path: Path) -> None:
    net = save(parsed(COUNTED, 17), tmp_path / "net.onnx")
    made = tmp_path / "made.onnx"
    result = convert(net, "-o", made, "--check")
    assert result.exit_code == 0, result.output
    x = reals(5, 2)
    (want,) = onnxruntime_results(parsed(COUNTED, 17), [x])
    (found,) = onnxruntime_results(onnx.load(str(made)), [x])
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(nnefc.compile(made)(x), want)


RESIZED = """(float[N,2,H,W] x, float[N,B,4] boxes, float[N,3,B] scores, float[H,W] updates) =>
  (float[N,2,h,w] y, int64[R,3] kept, int64[2,M] where, float[H,W] z)
{
  scales = Constant <value = float[4] {1.0, 1.0, 1.5, 2.0}> ()
  grown = Resize <mode = "linear"> (x, , scales)
  pads = Constant <value_ints = [0, 0, 1, 2, 0, 0, 2, 1]> ()
  reflected = Pad <mode = "reflect"> (grown, pads)
  repeated = Pad <mode = "edge"> (reflected, pads)
  s = Shape(x)
  three = Constant <value_ints = [1, 1, 3, 3]> ()
  sizes = Mul(s, three)
  y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">
    (repeated, , , sizes)
  most = Constant <value_int = 3> ()
  iou = Constant <value = float {0.4}> ()
  least = Constant <value = float {0.2}> ()
  kept = NonMaxSuppression(boxes, scores, most, iou, least)
  zero = Constant <value = float {0.0}> ()
  positive = Greater(updates, zero)
  where = NonZero(positive)
  index = Constant <value = int64[2,1] {1, 0}> ()
  two = Constant <value_ints = [0, 1]> ()
  rows = Gather(updates, two)
  z = ScatterND <reduction = "add"> (updates, index, rows)
}"""


def test_resampling_and_detection_with_symbols() -> None:
    made = onnx_model_of(source_of(parsed(RESIZED, 17)), {}, Diagnostics()).proto
    onnx.checker.check_model(made, full_check=True)
    for n, boxes, h, w in ((1, 6, 4, 3), (2, 9, 3, 5)):
        corners = reals(n, boxes, 4, seed=1)
        inputs = [reals(n, 2, h, w), corners, reals(n, 3, boxes, seed=2), reals(h, w, seed=3)]
        expected = onnxruntime_results(parsed(RESIZED, 17), inputs)
        assert len(expected[1]) > 2
        for got, want in zip(onnxruntime_results(made, inputs), expected, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


MASKED = """(float[P] past, float[S] x, float[T] mask) => (float[Q] y) {
  joined = Concat <axis = 0> (past, x)
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  n = Size(joined)
  all = Range(zero, n, one)
  none = Constant <value = float {0.0}> ()
  zeros = Mul(joined, none)
  shift = Cast <to = 7> (zeros)
  at = Add(all, shift)
  y = Gather(mask, at)
}"""


def test_samples_of_a_check_may_be_sums(tmp_path: Path) -> None:
    """With equal extents, positions of past and new tokens are beyond the mask."""
    net = save(parsed(MASKED, 17), tmp_path / "net.onnx")
    result = convert(net, "-o", tmp_path / "made.onnx", "--check")
    assert result.exit_code == 0, result.output
    assert "1 result equal" in result.output
    wrong = ("--check-symbol", "P=3", "--check-symbol", "S=2", "--check-symbol", "T=4")
    result = convert(net, "-o", tmp_path / "made.onnx", "--check", *wrong)
    assert isinstance(result.exception, NnefError)
    assert "[input/index]" in str(result.exception)


def test_errors_name_the_file(tmp_path: Path) -> None:
    net = save(parsed(SUMS, 17), tmp_path / "net.onnx")
    result = convert(net, "-o", tmp_path / "made.onnx")
    assert isinstance(result.exception, NnefError)
    assert [each.file for each in result.exception.errors] == [str(net)]


DECISIONS = {
    "branch": """
  above = Greater(s, limit)
  y = If (above) <
    then_branch = then () => (float[B,S] a) { a = Neg(x) },
    else_branch = other () => (float[B,S] b) { b = Abs(x) }
  >""",
    "bound": "least = Min(s, limit)\n  y = Slice(x, zero, least, one)",
}


@pytest.mark.parametrize("kind", DECISIONS)
def test_decisions_on_symbols_need_their_values(kind: str) -> None:
    """Also those that are the same for all samples but small ones."""
    proto = parsed(f"""(float[B,S] x) => (float[B,T] y)
    {{
      zero = Constant <value_ints = [0]> ()
      one = Constant <value_ints = [1]> ()
      limit = Constant <value_ints = [3]> ()
      s = Shape <start = 1> (x)
      {DECISIONS[kind]}
    }}""")
    with pytest.raises(NnefError) as caught:
        onnx_model_of(source_of(proto), {}, Diagnostics())
    (error,) = caught.value.errors
    assert error.rule == "flatten/symbol"
    assert "symbols: 'S'" in error.message
    for extent in (2, 5):
        x = reals(2, extent)
        made = onnx_model_of(source_of(proto, {"S": extent}), {}, Diagnostics())
        (y,) = onnxruntime_results(made.proto, [x])
        (expected,) = onnxruntime_results(proto, [x])
        np.testing.assert_array_equal(y, expected)


LIMITED = """(float[N,S] x) => (float[N,T] y) {{
  b = Constant <value_ints = [{begin}]> ()
  e = Constant <value_ints = [{end}]> ()
  a = Constant <value_ints = [1]> ()
  s = Slice(x, b, e, a)
  y = Relu(s)
}}"""


@pytest.mark.parametrize(("begin", "end"), [(0, 40), (-40, 1 << 62), (2, -40), (10, 1 << 62)])
def test_bounds_of_slices_are_limited_as_in_the_model(begin: int, end: int, tmp_path: Path) -> None:
    """Samples of the extent lie on one side of the limit, and calls on both."""
    model = parsed(LIMITED.format(begin=begin, end=end), 17)
    net, made = save(model, tmp_path / "net.onnx"), tmp_path / "made.onnx"
    result = convert(net, "-o", made)
    assert result.exit_code == 0, result.exception
    written = onnx.load(str(made))
    for extent in (2, 11, 39, 40, 41, 300):
        x = reals(2, extent)
        (y,), (expected,) = (onnxruntime_results(each, [x]) for each in (written, model))
        np.testing.assert_array_equal(y, expected)


def test_the_dialect_names_the_limit_that_it_cannot_say(tmp_path: Path) -> None:
    net = save(parsed(LIMITED.format(begin=0, end=40), 17), tmp_path / "net.onnx")
    result = convert(net, "-o", tmp_path / "made")
    assert "min(S, 40)" in str(result.exception)
    assert not (tmp_path / "made").exists()
    assert convert(net, "-o", tmp_path / "made", "--symbol", "S=50", "--check").exit_code == 0


POSITIONS = """(float[N,S] x) => (float[N,S] y) <float[1,40] p = {{{}}}> {{
  zero = Constant <value_ints = [0]> ()
  one = Constant <value_ints = [1]> ()
  e = Shape <start = 1, end = 2> (x)
  s = Slice(p, zero, e, one)
  y = Add(x, s)
}}"""


def test_limits_that_no_call_can_reach_do_not_count(tmp_path: Path) -> None:
    """40 positions cannot be added to more items."""
    positions = POSITIONS.format(", ".join(f"{i}.0" for i in range(40)))
    net, made = save(parsed(positions, 17), tmp_path / "net.onnx"), tmp_path / "made"
    assert convert(net, "-o", made).exit_code == 0
    assert "min" not in (made / "graph.nnef").read_text()
