"""Loops whose number of turns only a run tells, with the results of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import DynamicModel
from nnefc.emit.convert.tract_model import document_of
from nnefc.ir import Graph
from nnefc.ir.graph import walk
from nnefc.ops.internal.scan import UNBOUNDED
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.helpers.artifacts.c_shapes import emitted_program, run_with_symbols
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals
from tests.helpers.onnx.text_models import check, parsed
from tests.onnx.test_branches import close

Array = np.ndarray[Any, Any]


def bounds_of(graph: Graph) -> list[bool]:
    """For each loop, whether it has no bound."""
    return [op.attributes["turns"] == UNBOUNDED for op in walk(graph) if op.name == "scan"]


GROW = """(float[2,N] x, float limit, bool go, int64 steps)
  => (float[2,N] y, float[2,N] z, float[2,N] w, int64 n, int64 l)
  <float[2,1] k = {2.0, -1.5}, int64 zero = {0}, int64 one = {1},
   int64 endless = {9223372036854775807}> {
  y, z, w, n, l = Loop ({M}, go, x, x, x, zero, one) <
    body = turn (int64 i, bool c, float[2,N] a, float[2,N] b, float[2,N] s, int64 m, int64 e)
        => (bool d, float[2,N] a2, float[2,N] b2, float[2,N] s2, int64 m2, int64 e2) {
      a2 = Mul(a, k)
      b2 = Identity(a)
      s2 = Add(s, b)
      m2 = Add(m, one)
      e2 = Add(i, i)
      h = ReduceMax <keepdims = 0> (a2)
      d = Less(h, limit)
    }
  >
}"""
"""States that are computed, taken from another one, and numbers of turns.

Turns go on while the first state is below a limit."""


def grow(limit: float, go: bool = True, steps: int = 100, rows: int = 3) -> list[Array]:
    x = np.abs(reals(2, rows)) + np.float32(0.5)
    return [x, np.array(limit, np.float32), np.array(go), np.array(steps)]


CALLS = [
    *(grow(2.0**power, rows=3) for power in (-9, 1, 2, 3, 5, 40)),
    grow(1e9, go=False),
    *(grow(1e9, steps=steps) for steps in (-3, 0, 1, 2, 3, 4)),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("M", ["", "endless", "steps"])
def test_loops_run_as_long_as_their_condition_holds(M: str, threads: int, tmp_path: Path) -> None:
    text = GROW.replace("{M}", M).replace("N", "3")
    graph = check(text, *CALLS[3])
    assert bounds_of(graph) == [True]
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=threads)
    for call in CALLS:
        wanted = onnxruntime_results(parsed(text), call)
        for _ in range(2):
            close(model(*call), wanted)


NESTED = """(float[300,3] x, int64 most) => (float[300,3] y, int64 turns)
  <int64 zero = {0}, bool t = {1}> {
  y, turns = Loop (most, t, x, zero) <
    body = outer (int64 i, bool c, float[300,3] a, int64 n) => (bool d, float[300,3] a3, int64 n3) {
      one = Constant <value = int64 {1}> ()
      p = Add(i, one)
      s, m = Loop (p, c, a, n) <
        body = inner (int64 j, bool e, float[300,3] b, int64 k)
            => (bool f, float[300,3] b2, int64 k2) {
          q = Cast <to = 1> (j)
          r = Add(b, q)
          b2 = Tanh(r)
          k2 = Add(k, one)
          top = ReduceMax <keepdims = 0> (b2)
          least = Constant <value = float {0.5}> ()
          f = Greater(top, least)
        }
      >
      a3 = Neg(s)
      n3 = Add(m, one)
      low = ReduceMin <keepdims = 0> (a3)
      bound = Constant <value = float {-0.99999}> ()
      d = Greater(low, bound)
    }
  >
}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_loops_in_loops(threads: int, tmp_path: Path) -> None:
    graph = check(NESTED, reals(300, 3), np.array(4))
    assert bounds_of(graph) == [True, True]
    model = nnefc.compile(save(parsed(NESTED), tmp_path / "net.onnx"), threads=threads)
    for most in (0, 1, 2, 3, 7, 50):
        call = [reals(300, 3, seed=most), np.array(most)]
        close(model(*call), onnxruntime_results(parsed(NESTED), call))


def test_shapes_and_files(tmp_path: Path) -> None:
    text = GROW.replace("{M}", "steps")
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=1)
    calls = [grow(30, rows=rows, steps=steps) for rows in (2, 5, 3) for steps in (0, 1, 2, 9)]
    for call in calls:
        close(model(*call), onnxruntime_results(parsed(text), call))
    model.save(tmp_path / "net.nnefc")
    loaded = nnefc.load(tmp_path / "net.nnefc")
    for call in calls:
        close(loaded(*call), onnxruntime_results(parsed(text), call))


COUNTED = """(float[2,N] x) => (float[2,N] y) <int64 M = {5000}, bool t = {1}> {
  {count}
  y = Loop ({M}, t, x) <
    body = turn (int64 i, bool c, float[2,N] s) => (bool d, float[2,N] s2) {
      f = Cast <to = 1> (i)
      r = Sin(f)
      s2 = Add(s, r)
      d = Identity(c)
    }
  >
}"""


def test_many_turns_and_symbolic_numbers_of_turns_are_counted_by_a_run(tmp_path: Path) -> None:
    x = reals(2, 3)
    many = COUNTED.replace("{M}", "M").replace("{count}", "")
    assert bounds_of(check(many.replace("N", "3"), x)) == [True]
    few = many.replace("5000", "50").replace("N", "3")
    assert bounds_of(check(few, x)) == [False]
    count = "one = Constant <value = int64 {1}> () h = Shape(x) k = Gather(h, one)"
    text = COUNTED.replace("{M}", "k").replace("{count}", count)
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=1)
    for extent in (2, 3, 8, 5):
        call = [reals(2, extent)]
        close(model(*call), onnxruntime_results(parsed(text), call))
    assert isinstance(model, DynamicModel)
    (plan,) = {len(model.for_shapes({"x": (2, n)}).launches) for n in (3, 9)}
    assert plan < 12


@needs_compiler
def test_c_programs(tmp_path: Path) -> None:
    text = GROW.replace("{M}", "steps").replace("N", "3")
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=1)
    assert isinstance(model, CompiledModel)
    model.emit_c(tmp_path / "c", name="net")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "net.o", "-o", program, *LIBRARIES)
    for call in CALLS[1:4]:
        wanted = onnxruntime_results(parsed(text), call)
        close(run_main(program, 2, call, wanted), wanted)


VARYING = """(float[N,16] x, bool c, int64 k) => (float[N,16] y) <bool t = {1}> {
  y = If (c) <
    then_branch = a () => (float[N,16] p) {
      u = Transpose <perm = [1, 0]> (x)  m = MatMul(x, u)  p = MatMul(m, x)
    },
    else_branch = b () => (float[N,16] p) {
      p = Loop (k, t, x) <
        body = turn (int64 i, bool d, float[N,16] s) => (bool e, float[N,16] s2) {
          s2 = Softmax(s)  e = Identity(d)
        }
      >
    }
  >
}"""


@needs_compiler
def test_c_programs_for_many_shapes(tmp_path: Path) -> None:
    model = nnefc.compile(save(parsed(VARYING), tmp_path / "net.onnx"), threads=1)
    assert isinstance(model, DynamicModel)
    program = emitted_program(model, tmp_path, {"N": 4})
    for n, c, k in ((5, True, 2), (8, False, 0), (6, False, 3), (4, False, 2)):
        call = [reals(n, 16), np.array(c), np.array(k)]
        found = model(*call)
        close(found, onnxruntime_results(parsed(VARYING), call))
        assert run_with_symbols(program, [n], call, [found]) == ""


def test_indices_of_turns_that_do_not_run_are_not_read(tmp_path: Path) -> None:
    """The gather does not depend on a state, but must not run before the loop."""
    text = """(float[4,3] x, int64[2] i, int64 steps) => (float[2,3] y) <bool t = {1}> {
      u = Slice (x, zero, two)
      y = Loop (steps, t, u) <
        body = turn (int64 n, bool c, float[2,3] s) => (bool d, float[2,3] s2) {
          g = Gather(x, i)
          s2 = Add(s, g)
          d = Identity(c)
        }
      >
    }"""
    text = text.replace("<bool t = {1}>", "<bool t = {1}, int64[1] zero = {0}, int64[1] two = {2}>")
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=1)
    x = reals(4, 3)
    close(model(x, np.array([9, 0]), np.array(0)), [x[:2]])
    close(model(x, np.array([3, 0]), np.array(2)), [x[:2] + x[[3, 0]] + x[[3, 0]]])
    with pytest.raises(NnefError, match=r"index 9 .*input/index"):
        model(x, np.array([9, 0]), np.array(1))


def test_what_needs_a_bound_is_said() -> None:
    text = GROW.replace("{M}", "").replace("N", "3")
    growing = text.replace("a2 = Mul(a, k)", "a2 = Concat <axis = 0> (a, a)")
    stacked = text.replace("int64 l)", "int64 l, float[K] t)").replace("n, l =", "n, l, t =")
    stacked = stacked.replace("int64 e2)", "int64 e2, float t2)")
    stacked = stacked.replace("d = Less", "t2 = Neg(h) d = Less")
    for wrong, message in (
        (growing, r"cannot run without a bound: state 0 is \[2, 3\] before a turn, \[4, 3\] after"),
        (stacked, r"cannot run without a bound: its body has results for each turn"),
    ):
        with pytest.raises(NnefError, match=message):
            graph_for(parsed(wrong), CALLS[0])
    with pytest.raises(NnefError, match="number of turns is only known when the model runs"):
        document_of(graph_for(parsed(text), CALLS[0]), {}, "tract")
