"""Loops that are left early: turns that change nothing do not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.ir import parse_graph, print_graph
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.artifacts.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.helpers.graphs.loops import MOST, SETTINGS, compiled, halvings, only_loop

Array = np.ndarray[Any, Any]


def halved(v: Array, limit: float, turns: int, inner: int, go: bool) -> tuple[int, list[Array]]:
    """The number of halvings, and v after each turn of the outer loop that counts."""
    n, rows = 0, list[Array]()
    while go and len(rows) < turns:
        for _ in range(inner):
            v, n = v * np.float32(0.5), n + 1
            if not v.max() > limit:
                break
        v = v * np.float32(3)
        rows.append(v)
        go = n < MOST
    return n, rows


def inputs_of(v: Array, limit: float, go: bool) -> list[Array]:
    return [np.array([go]), np.zeros(1, np.int64), v, np.full((1, 1), limit, np.float32)]


V = np.array([[0.5, -2, 1]], np.float32)


@given(
    st.integers(1, 9),
    st.integers(1, 6),
    st.floats(2**-7, 4, width=32),
    st.booleans(),
    st.sampled_from([1, 2]),
)
@SETTINGS
def test_results_are_those_of_a_python_loop(
    turns: int, inner: int, limit: float, go: bool, threads: int
) -> None:
    graph, given_arrays = halvings(turns, inner), inputs_of(V, limit, go)
    run_pipeline(graph)
    model = compiled(graph, threads)
    left = np.full((turns, 3), 77, np.float32)
    out = [np.empty(1, np.int64), np.empty((1, 3), np.float32), left]
    model(*given_arrays, out=out)
    n, rows = halved(V, limit, turns, inner, go)
    assert out[0] == n
    np.testing.assert_array_equal(out[1], rows[-1] if rows else V)
    np.testing.assert_array_equal(left[: len(rows)], [row[0] for row in rows] or left[:0])
    # at most two turns of a loop run that do not count: the first, and one until it may be left
    idle = left[max(len(rows), 1) + 1 :]
    assert turns < 3 or (idle == 77).all()


def test_the_reference_computes_the_same() -> None:
    graph, given_arrays = halvings(5, 4), inputs_of(V, 0.3, True)
    names = [value.name for value in graph.inputs]
    found = evaluate(graph, dict(zip(names, given_arrays, strict=True))).outputs
    n, rows = halved(V, 0.3, 5, 4, True)
    assert found["n"] == n
    np.testing.assert_array_equal(found["v"], rows[-1])


def test_passes_and_text_keep_the_condition() -> None:
    graph = halvings(5, 4)
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    run_pipeline(graph)
    loop = only_loop(graph)
    (state,) = (i for i, value in enumerate(loop.inputs) if value is graph.inputs[0])
    assert loop.attributes["condition"] == state


@pytest.mark.parametrize("number", [1, 3, -1])
def test_a_condition_is_a_state_with_one_bool(number: int) -> None:
    graph = halvings(5, 4)
    only_loop(graph).attributes["condition"] = number
    assert any(
        "its condition must be a state with one bool" in p for p in verify(graph, rule_problems)
    )


def test_profiles_leave_loops_as_calls_do() -> None:
    model = nnefc.compile(halvings(6, 4), threads=1)
    found = model.profile(*inputs_of(V, 4, True), seconds=0.02)
    tiles = np.bincount(found.launch_of, minlength=found.launches)
    assert tiles.tolist() == [launch.tiles * launch.times for launch in model.launches]
    ran = found.end > 0
    assert (ran == ran[0]).all()
    assert 0 < ran[0].sum() < len(ran[0])
    idle = model.profile(*inputs_of(V, 4, False), seconds=0.02)
    assert (idle.end[0] > 0).sum() < ran[0].sum()
    assert (found.wall >= 0).all()


@needs_compiler
def test_c_programs_leave_loops(tmp_path: Path) -> None:
    nnefc.compile(halvings(6, 4), threads=1).emit_c(tmp_path / "c")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "halvings.o", "-o", program, *LIBRARIES)
    n, rows = halved(V, 0.3, 6, 4, True)
    like = [np.zeros(1, np.int64), V, np.zeros((6, 3), np.float32)]
    found = run_main(program, 2, inputs_of(V, 0.3, True), like)
    assert found[0] == n
    np.testing.assert_array_equal(found[1], rows[-1])
