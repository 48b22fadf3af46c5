"""Branches and loops, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import reals
from tests.helpers.onnx.text_models import check, parsed

Array = np.ndarray[Any, Any]


def scans(graph: Graph) -> int:
    return sum(op.name == "scan" for op in graph.ops)


def int64(*items: int) -> Array:
    return np.array(items, np.int64)


# -- If

IF = """(float[3] x, bool c) => (float[3] y, float[3] z) {
  w = Add(x, x)
  y, z = If (c) <
    then_branch = a () => (float[3] p, float[3] q) { p = Mul(x, w)  q = Neg(x) },
    else_branch = b () => (float[3] p, float[3] q) {
      one = Constant <value = float {1}> ()
      p = Add(w, one)
      q = If (c) <
        then_branch = d () => (float[3] r) { r = Identity(x) },
        else_branch = e () => (float[3] r) { r = Exp(p) }
      >
    }
  >
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_computed_condition_selects_between_both_branches(condition: bool) -> None:
    check(IF, reals(3), np.array(condition))


@pytest.mark.parametrize("condition", [0, 1])
def test_a_known_condition_evaluates_one_branch(condition: int) -> None:
    text = f"""(float[3] x) => (float[M] y) <bool c = {{{condition}}}> {{
      y = If (c) <
        then_branch = a () => (float[M] p) {{ p = Concat <axis = 0> (x, x) }},
        else_branch = b () => (float[M] p) {{ p = Neg(x) }}
      >
    }}"""
    graph = check(text, reals(3))
    assert [op.name for op in graph.ops] == (["concat"] if condition else ["neg"])


# -- Loop

SUM = """(float[3] x, float[3] a{inputs}) => (float[3] y, float[K, 2, 3] z)
  <bool t = {{1}}{known}> {{
  w = Exp(x)
  y, z = Loop ({M}, {cond}, a) <
    body = turn (int64 i, bool c, float[3] s) => (bool d, float[3] n, float[2, 3] r) {{
      f = Cast <to = 1> (i)
      m = Mul(s, w)
      n = Add(m, f)
      two = Constant <value_ints = [2, 3]> ()
      r = Expand(n, two)
      {stop}
    }}
  >
}}"""


def summed(
    M: str, cond: str, stop: str = "d = Identity(c)", known: str = "", inputs: str = ""
) -> str:
    return SUM.format(M=M, cond=cond, stop=stop, known=known, inputs=inputs)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_loop_with_a_known_number_of_turns_is_one_scan(turns: int) -> None:
    graph = check(summed("M", "t", known=f", int64 M = {{{turns}}}"), reals(3), reals(3, seed=1))
    assert scans(graph) == (turns > 1)


BELOW = "k = Constant <value_int = 3> () d = Less(i, k)"
SMALL = """k = Constant <value_float = 4.0> ()
  h = ReduceMax <keepdims = 0> (n)
  d = Less(h, k)"""


@pytest.mark.parametrize("M", ["", "M"])
def test_a_loop_that_counts_its_turns_needs_no_bound(M: str) -> None:
    known = f", int64 M = {{{2**62}}}" if M else ""
    check(summed(M, "t", BELOW, known), reals(3), reals(3, seed=1))


@pytest.mark.parametrize("seed", range(4))
def test_a_loop_that_stops_at_run_time_gives_as_many_results(seed: int) -> None:
    graph = check(summed("M", "t", SMALL, ", int64 M = {9}"), reals(3), reals(3, seed=seed))
    assert scans(graph) == 1
    assert len(graph.counts) == 1


@pytest.mark.parametrize("steps", [-1, 0, 1, 4, 9])
def test_a_loop_may_have_a_bound_that_is_computed_at_run_time(steps: int) -> None:
    text = summed("bound", "t", inputs=", int64 steps", known=", int64 most = {5}")
    text = text.replace("w = Exp(x)", "w = Exp(x) bound = Min(steps, most)")
    check(text, reals(3), reals(3, seed=1), np.array(steps))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("go", [True, False])
def test_a_known_counter_bounds_a_loop_that_stops_at_run_time(seed: int, go: bool) -> None:
    text = """(float[3] x, bool go) => (float[3] y, int64 n, float[K, 3] z) <int64 zero = {0}> {
      y, n, z = Loop (, go, x, zero) <
        body = turn (int64 i, bool c, float[3] s, int64 k)
            => (bool d, float[3] t, int64 l, float[3] r) {
          two = Constant <value_float = 2.0> ()
          most = Constant <value_float = 9.0> ()
          t = Mul(s, two)
          r = Neg(t)
          h = ReduceMax <keepdims = 0> (t)
          small = Less(h, most)
          one = Constant <value_int = 1> ()
          five = Constant <value_int = 5> ()
          l = Add(k, one)
          below = Less(l, five)
          d = If (below) <
            then_branch = p () => (bool e) { e = Identity(small) },
            else_branch = q () => (bool e) { e = Identity(below) }
          >
        }
      >
    }"""
    check(text, reals(3, seed=seed), np.array(go))


@pytest.mark.parametrize("condition", [True, False])
def test_the_first_condition_may_be_computed(condition: bool) -> None:
    text = summed("M", "go", inputs=", bool go", known=", int64 M = {3}")
    check(text, reals(3), reals(3, seed=1), np.array(condition))


def test_a_loop_without_a_bound_is_refused_with_advice() -> None:
    for text, more in (
        (summed("steps", "t", inputs=", int64 steps"), [np.array(3)]),
        (summed("", "t", SMALL), []),
    ):
        with pytest.raises(NnefError, match=r"number of turns.*onnx/turns.*\n.*Min\(M, 100\)"):
            graph_for(parsed(text), [reals(3), reals(3), *more])


def test_turns_that_change_the_shape_of_a_state_are_evaluated_one_by_one() -> None:
    text = """(float[2] x) => (float[N] y, float[3] z) <int64 M = {3}, bool t = {1}> {
      y, z = Loop (M, t, x) <
        body = turn (int64 i, bool c, float[K] s) => (bool d, float[L] n, float r) {
          n = Concat <axis = 0> (s, x)
          r = ReduceSum <keepdims = 0> (n)
          d = Identity(c)
        }
      >
    }"""
    assert scans(check(text, reals(2))) == 0


def test_a_body_may_need_the_number_of_the_turn() -> None:
    text = """(float[4, 3] x) => (float[4, 3] z) <int64 M = {4}, bool t = {1}> {
      z = Loop (M, t) <
        body = turn (int64 i, bool c) => (bool d, float[3] r) {
          zero = Constant <value_ints = [0]> ()
          one = Constant <value_int = 1> ()
          next = Add(i, one)
          begin = Unsqueeze(i, zero)
          end = Unsqueeze(next, zero)
          row = Slice(x, begin, end, zero)
          r = Squeeze(row, zero)
          d = Identity(c)
        }
      >
    }"""
    check(text, reals(4, 3))


def test_loops_nest_and_take_values_from_all_graphs_around() -> None:
    text = """(float[3] x) => (float[3] y, float[2, 3, 3] z)
      <int64 M = {2}, int64 N = {3}, bool t = {1}> {
      w = Tanh(x)
      y, z = Loop (M, t, x) <
        body = outer (int64 i, bool c, float[3] s) => (bool d, float[3] n, float[3, 3] r) {
          v = Sin(s)
          n, r = Loop (N, t, s) <
            body = inner (int64 j, bool e, float[3] u) => (bool g, float[3] o, float[3] q) {
              a = Mul(u, w)
              b = Add(a, v)
              l = Add(i, j)
              f = Cast <to = 1> (l)
              o = Add(b, f)
              q = If (e) <
                then_branch = p () => (float[3] k) { k = Sub(o, s) },
                else_branch = h () => (float[3] k) { k = Identity(x) }
              >
              g = Identity(e)
            }
          >
          d = Identity(c)
        }
      >
    }"""
    assert scans(check(text, reals(3))) == 1


def test_states_may_be_sequences() -> None:
    text = """(float[2, 3] x) => (float[3, 2, 3] y) <int64 M = {3}, bool t = {1}> {
      empty = SequenceEmpty()
      s = Loop (M, t, empty) <
        body = turn (int64 i, bool c, seq(float[2, 3]) s) => (bool d, seq(float[2, 3]) n) {
          f = Cast <to = 1> (i)
          v = Mul(x, f)
          n = SequenceInsert(s, v)
          d = Identity(c)
        }
      >
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
    }"""
    check(text, reals(2, 3))


# -- Scan

SCAN = """(float[3] a, float[3, 4] x, float[4, 2, 3] u)
  => (float[3] y, float[2, 3, 4] z, float[4] w) {
  k = Exp(a)
  y, z, w = Scan (a, x, u) <
    num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [{inputs}],
    scan_output_axes = [-1, 0], scan_output_directions = [{outputs}],
    body = turn (float[3] s, float[3] p, float[2, 3] q) => (float[3] n, float[2, 3] r, float o) {
      m = Mul(s, p)
      n = Add(m, k)
      r = Sub(q, m)
      o = ReduceMax <keepdims = 0> (m)
    }
  >
}"""


@pytest.mark.parametrize("inputs", ["0, 0", "1, 0", "1, 1"])
@pytest.mark.parametrize("outputs", ["0, 0", "0, 1", "1, 0"])
def test_scans_have_axes_and_directions(inputs: str, outputs: str) -> None:
    text = SCAN.replace("{inputs}", inputs).replace("{outputs}", outputs)
    assert scans(check(text, reals(3), reals(3, 4), reals(4, 2, 3))) == 1


SCAN_8 = """(float[2, 3] a, float[2, 4, 3] x{inputs}) => (float[2, 3] y, float[2, 4, 3] z){known} {
  y, z = Scan ({lengths}, a, x) <num_scan_inputs = 1, directions = [{backwards}],
    body = turn (float[3] s, float[3] p) => (float[3] n, float[3] r) {
      n = Sub(p, s)
      r = Mul(n, p)
    }
  >
}"""


@pytest.mark.parametrize("backwards", ["0", "1"])
@pytest.mark.parametrize("kind", ["none", "known", "computed"])
def test_scans_of_version_8_have_a_batch(kind: str, backwards: str) -> None:
    inputs, known, lengths = {
        "none": ("", "", ""),
        "known": ("", " <int64[2] lens = {4, 2}>", "lens"),
        "computed": (", int64[2] lens", "", "lens"),
    }[kind]
    text = SCAN_8
    for name, value in {
        "inputs": inputs, "known": known, "lengths": lengths, "backwards": backwards,
    }.items():  # fmt: skip
        text = text.replace(f"{{{name}}}", value)
    more = [int64(4, 2)] if kind == "computed" else []
    check(text, reals(2, 3), reals(2, 4, 3), *more, opset=8)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_loop_over_the_rows_of_an_empty_tensor(rows: int) -> None:
    """No turn is possible: there is no row that it could take."""
    text = f"""(float[{rows}, 2] x, float[2] s) => (float[2] y, float[K, 2] z) {{
      n = Shape(x)
      first = Constant <value_ints = [0]> ()
      m = Gather(n, first)
      y, z = Loop (m, , s) <
        body = b (int64 i, bool c, float[2] before) => (bool d, float[2] after, float[2] r) {{
          d = Identity(c)
          r = Gather(x, i)
          after = Add(before, r)
        }}
      >
    }}"""
    check(text, reals(rows, 2), reals(2))
