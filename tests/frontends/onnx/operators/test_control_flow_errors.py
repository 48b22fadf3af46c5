"""Branches and loops that are refused, and why."""

from __future__ import annotations

import time

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import reals
from tests.helpers.onnx.text_models import parsed

LOOP = """(float[2] x) => (float[2] y)
  <int64 M = {{3}}, bool t = {{1}}, float f = {{1.0}}> {{
  y = Loop ({args}) < body = turn ({inputs}) => ({outputs}) {{ {body} }} >
}}"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": "int64 i, bool c"}, r"takes 2 inputs, not 3.*onnx/arguments"),
        ({"outputs": "bool d"}, r"a condition and 1 states are expected.*onnx/arguments"),
        ({"outputs": ""}, r"gives 0 results.*onnx/arguments"),
        ({"args": "f, t, x"}, r"M has items of float32; version 17 takes int64.*onnx/type"),
        ({"args": "M, f, x"}, r"cond has items of float32; version 17 takes bool.*onnx/type"),
        ({"body": "n = Neg(q) d = Identity(c)"}, r"computes its input 'q'.*onnx/name"),
        ({"body": "n = Neg(s) d = Identity(f)"}, r"condition is float32\[\].*onnx/type"),
        ({"body": "m = Neg(s) d = Identity(c)"}, r"computes the output 'n'.*onnx/name"),
        ({"body": "n = Cast <to = 11> (s) d = Identity(c)"}, r"float32 before.*float64.*onnx/type"),
    ],
)
def test_a_loop_and_its_body_must_fit(changes: dict[str, str], message: str) -> None:
    arguments = {
        "args": "M, t, x",
        "inputs": "int64 i, bool c, float[2] s",
        "outputs": "bool d, float[2] n",
        "body": "n = Neg(s) d = Identity(c)",
        **changes,
    }
    with pytest.raises(NnefError, match=message) as caught:
        graph_for(parsed(LOOP.format(**arguments)), [reals(2)])
    assert len(caught.value.errors) == 1


@pytest.mark.slow
def test_loops_without_end_exceed_a_limit() -> None:
    arguments = {
        "args": ", t, x",
        "inputs": "int64 i, bool c, float[2] s",
        "outputs": "bool d, float[2] n",
        "body": "n = Neg(s) d = Identity(c)",
    }
    with pytest.raises(NnefError, match=r"limit/(steps|operations)"):
        graph_for(parsed(LOOP.format(**arguments)), [reals(2)])


def test_the_batch_of_a_scan_of_version_8_must_fit() -> None:
    text = """(float[2, 3] a, float[2, 4, 3] x) => (float[2, 3] y) <int64[1] lens = {2}> {
      y = Scan (lens, a, x) <num_scan_inputs = 1,
        body = turn (float[3] s, float[3] p) => (float[3] n) { n = Sub(p, s) }
      >
    }"""
    with pytest.raises(NnefError, match=r"batch of 2 and 4 turns have shapes .*onnx/shape"):
        graph_for(parsed(text, 8), [reals(2, 3), reals(2, 4, 3)])


def test_refused_operators_are_reported_at_once_with_their_number_and_a_reason() -> None:
    text = """(float[2] x) => (float[2] y) {
      a = StringNormalizer (x)
      b = StringNormalizer (a)
      c = ImageDecoder (b)
      y = Undefined (c)
    }"""
    with pytest.raises(NnefError) as caught:
        graph_for(parsed(text, 20), [reals(2)])
    messages = "\n".join(map(str, caught.value.errors))
    assert len(caught.value.errors) == 3
    assert "StringNormalizer of version 20, used 2 times" in messages
    assert "process strings before the model runs" in messages
    assert "does not decode images" in messages


def test_branches_with_different_shapes_are_refused_with_both_shapes() -> None:
    text = """(float[3] x, bool c) => (float[M] y) {
      y = If (c) <
        then_branch = a () => (float[M] p) { p = Concat <axis = 0> (x, x) },
        else_branch = b () => (float[M] p) { p = Neg(x) }
      >
    }"""
    with pytest.raises(NnefError, match=r"float32\[6\].*float32\[3\].*onnx/unsupported"):
        graph_for(parsed(text), [reals(3), np.array(True)])


def test_errors_of_a_body_that_a_loop_without_turns_has_no_types_for() -> None:
    model = parsed("""(float[0, 2] x) => (float[K, 2] z) <int64 m = {0}> {
      z = Loop (m, ) <
        body = b (int64 i, bool c) => (bool d, float[2] r) { d = Identity(c)  r = Gather(x, i) }
      >
    }""")
    model.graph.node[0].attribute[0].g.output[1].ClearField("type")
    with pytest.raises(NnefError, match="index 0 is outside an extent of 0"):
        graph_for(model, [reals(0, 2)])


@pytest.mark.parametrize("turns", [1 << 20, 1 << 40])
@pytest.mark.parametrize("condition", ["Identity(c)", "Cast <to = 9> (yes)"])
def test_too_many_turns_are_refused_after_the_first(turns: int, condition: str) -> None:
    """Turns that grow a state are evaluated one by one, which would take minutes."""
    text = f"""(float[1] x) => (float[N] y) <int64 m = {{{turns}}}, float yes = {{1}}> {{
      y = Loop (m, , x) <
        body = b (int64 i, bool c, float[N] s) => (bool d, float[L] t) {{
          d = {condition}
          t = Concat <axis = 0> (s, x)
        }}
      >
    }}"""
    begin = time.perf_counter()
    with pytest.raises(NnefError, match=r"turns of a loop are evaluated one by one.*limit/steps"):
        graph_for(parsed(text), [reals(1)])
    assert time.perf_counter() - begin < 5
