"""Indices out of range in models with variables, sessions, loops and known indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.ir import parse_graph
from nnefc.lower import lower
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.graphs.dynamic_models import symbolic_model
from tests.helpers.index_errors import index_error
from tests.helpers.kernels.one_op import normal


def test_variables_keep_their_values_when_a_call_fails() -> None:
    graph = parse_graph("""
    graph count(%i: int64[2]) -> (y = %y) {
      %v: float32[2] = variable() {shape = [2], label = "total"}
      %y: float32[2] = gather(%v, %i) {axis = 0}
      %w: float32[2] = add(%v, %y)
      %u: float32[2] = update(%v, %w)
    }""")
    variable = graph.variables["total"]
    variable.data = np.array([1, 2], np.float32)
    for threads in (1, 2):
        model = nnefc.compile(graph, threads=threads)
        assert isinstance(model, CompiledModel)
        model(np.array([0, 1]))
        np.testing.assert_array_equal(model.variables["total"], [2, 4])
        index_error(model, np.array([0, 2]))
        np.testing.assert_array_equal(model.variables["total"], [2, 4])
        model(np.array([1, 0]))
        np.testing.assert_array_equal(model.variables["total"], [6, 6])


def test_sessions_keep_their_states_when_a_call_fails(tmp_path: Path) -> None:
    """Symbolic plans report positions in the input of the call."""
    model = symbolic_model(
        tmp_path,
        """graph g(ids) -> (all) {
          ids = tract_core_external(shape = [1, S], datum_type = 'i64');
          table = variable(label = 'table', shape = [10, 4]);
          x = tract_core_gather(table, ids, axis = 0);
          all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
            past_sequence_shape = [1, T, 4], input_sequence_shape = [1, S, 4]);
        }""",
        table=normal(1, 10, 4),
    )
    session, ids = model.session(), np.arange(7, dtype=np.int64)[None]
    for count in (3, 1, 1, 2, 5, 6, 7):
        before = session.shapes
        kept = {name: array.copy() for name, array in session.states.items()}
        wrong = ids[:, :count].copy()
        wrong[0, -1] = 10
        found = index_error(session, wrong)
        assert (
            f"index 10 at [0, {count - 1}] of 'ids' is not in the range -10 to 9" in found.message
        )
        assert session.shapes == before
        for name, array in session.states.items():
            np.testing.assert_array_equal(array, kept[name])
        session(ids[:, :count])
    table = normal(1, 10, 4)
    want = np.concatenate([table[ids[0, :n]] for n in (3, 1, 1, 2, 5, 6, 7)])
    np.testing.assert_array_equal(dict(session.states)["kept"][0], want)


@pytest.mark.parametrize("backwards", [False, True])
def test_loops_report_the_first_turn_that_fails(backwards: bool) -> None:
    graph = parse_graph(f"""
    graph loop(%t: float32[4,2], %i: int64[6], %s: float32[1,2]) -> (s = %s1) {{
      %s1: float32[1,2] = scan(%s, %i, %t) {{turns = 6, states = 1, scanned = 1,
        backwards = [{str(backwards).lower()}],
        body = graph turn(%s: float32[1,2], %i: int64[1], %t: float32[4,2]) -> (s1 = %n) {{
          %r: float32[1,2] = gather(%t, %i) {{axis = 0}}
          %n: float32[1,2] = add(%s, %r)
        }}}}
    }}""")
    model, table = nnefc.compile(graph), normal(1, 4, 2)
    start, ids = np.zeros((1, 2), np.float32), np.array([0, 4, 1, 2, 9, 3])
    at, value = (4, 9) if backwards else (1, 4)
    want = f"index {value} at [{at}] of 'i' is not in the range -4 to 3"
    assert want in index_error(model, table, ids, start).message
    valid = np.array([0, 1, 2, 3, -1, -4])
    np.testing.assert_allclose(model(table, valid, start)[0], table[valid].sum(0), rtol=1e-6)


def test_errors_of_computed_indices_in_a_loop_have_no_position() -> None:
    """A position would be one in the slice of a turn, which has the shape [1]."""
    graph = parse_graph("""
    graph loop(%t: float32[4,2], %i: int64[6], %s: float32[1,2]) -> (s = %s1) {
      %s1: float32[1,2] = scan(%s, %i, %t) {turns = 6, states = 1, scanned = 1,
        backwards = [false],
        body = graph turn(%s: float32[1,2], %i: int64[1], %t: float32[4,2]) -> (s1 = %n) {
          %j: int64[1] = add(%i, %i)
          %r: float32[1,2] = gather(%t, %j) {axis = 0}
          %n: float32[1,2] = add(%s, %r)
        }}
    }""")
    model, table = nnefc.compile(graph), normal(1, 4, 2)
    start = np.zeros((1, 2), np.float32)
    found = index_error(model, table, np.array([0, 1, 1, 2, 0, 1]), start).message
    assert "gather %r: index 4 of " in found
    assert "is not in the range -4 to 3" in found


def test_known_indices_are_checked_when_the_model_is_compiled() -> None:
    graph = parse_graph("""
    graph known(%x: float32[3,2]) -> (y = %y) {
      %i: int64[2] = constant() {shape = [2], value = [1, 3]}
      %y: float32[2,2] = gather(%x, %i) {axis = 0}
    }""")
    for option in (True, False):
        found = index_error(nnefc.compile, graph, check_indices=option)
        assert "index 3 at [1] of 'i' is not in the range -3 to 2" in found.message
        assert not found.hint


def test_known_indices_in_range_cost_no_check() -> None:
    graph = parse_graph("""
    graph known(%x: float32[3,2]) -> (y = %y) {
      %i: int64[2] = constant() {shape = [2], value = [1, -3]}
      %y: float32[2,2] = gather(%x, %i) {axis = 0}
    }""")
    (launch,) = lower(graph).launches
    assert launch.words[-1] == -1
