"""Models with states between calls, and results whose extents only a run determines."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.dynamic.dynamic_model import DynamicModel, Session
from tests.helpers.graphs.dynamic_models import model, rows

Array = np.ndarray[Any, Any]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[DynamicModel]:
    """A model that returns all inputs of its session concatenated, and their sum."""
    yield model(
        tmp_path,
        """graph g(x) -> (all, total) {
          x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
          all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
            past_sequence_shape = [1, P, 4], input_sequence_shape = [1, S, 4]);
          total = sum_reduce(all, axes = [1]);
        }""",
        "extension tract_registry tract_transformers;\nextension tract_symbol S;\n"
        "extension tract_symbol P;\n",
    )


def test_a_model_keeps_states_until_it_is_reset(cache: DynamicModel) -> None:
    parts = [rows(n)[None] for n in (3, 1, 1, 2)]
    for _ in range(2):
        for i, part in enumerate(parts):
            whole = np.concatenate(parts[: i + 1], axis=1)
            found, total = cache(part)
            np.testing.assert_array_equal(found, whole)
            np.testing.assert_allclose(total, whole.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
        cache.reset()


def test_sessions_are_independent(cache: DynamicModel) -> None:
    first, second = cache.session(), cache.session()
    first(rows(3)[None])
    second(rows(5)[None])
    assert first(rows(1)[None])[0].shape == (1, 4, 4)
    assert second(rows(1)[None])[0].shape == (1, 6, 4)
    assert cache(rows(2)[None])[0].shape == (1, 2, 4)
    assert first.shapes == {"kept": (1, 4, 4)}
    second.reset()
    assert second(rows(1)[None])[0].shape == (1, 1, 4)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ([np.zeros((1, 5, 4), np.float32)], "1 arrays in out, expected 2: all, total"),
        ({"all": np.zeros((1, 5, 4), np.float32)}, r"expected \[1, 4, 4\]"),
        ({"total": np.zeros((1, 1, 4))}, "float64"),
    ],
)
def test_results_that_do_not_fit_leave_states_unchanged(
    cache: DynamicModel, out: Any, words: str
) -> None:
    """A failed call does not change the session."""
    session, x = cache.session(), rows(1)[None]
    session(rows(3)[None])
    with pytest.raises(NnefError, match=words):
        session(x, out=out) if isinstance(out, list) else session.run({"x": x}, out)
    assert session.shapes == {"kept": (1, 3, 4)}
    targets = [np.zeros((1, 4, 4), np.float32), np.zeros((1, 1, 4), np.float32)]
    assert session(x, out=targets) is targets
    np.testing.assert_array_equal(targets[0], np.concatenate([rows(3), rows(1)])[None])


class _Frame:
    """It has a shape and items, as a table has, but its memory cannot be written."""

    def __init__(self, *arrays: Array) -> None:
        self.shape = (len(arrays),)
        self._arrays = arrays

    def __iter__(self) -> Iterator[Array]:
        return iter(self._arrays)


def test_results_are_not_written_to_the_items_of_an_object_with_a_shape(
    cache: DynamicModel,
) -> None:
    session, x = cache.session(), rows(3)[None]
    for out in (_Frame(*session(x)), _Frame()):
        before = session.shapes
        with pytest.raises(NnefError, match="out is a _Frame, which has neither") as caught:
            session(x, out=out)
        assert caught.value.errors[0].rule == "input/array"
        assert session.shapes == before


def test_states_can_be_assigned(cache: DynamicModel) -> None:
    session = cache.session()
    session.states["kept"] = rows(6)[None]
    found = session.run({"x": rows(2)[None]})
    np.testing.assert_array_equal(found["all"], np.concatenate([rows(6), rows(2)])[None])


def test_assigned_arrays_are_copied(cache: DynamicModel) -> None:
    session, mine = cache.session(), rows(6)[None]
    session.states["kept"] = mine
    mine[:] = 7
    np.testing.assert_array_equal(session(rows(1)[None])[0][0, :6], rows(6))


@pytest.mark.parametrize(
    ("name", "array", "rule", "words"),
    [
        ("cache", rows(6)[None], "input/state", "keeps a state 'cache'"),
        ("cache", rows(6)[None], "input/state", "states of the model: 'kept'; del "),
        ("kept", rows(6), "input/state", "the state 'kept' has shape [6, 4], but must have rank 3"),
        ("kept", np.zeros((1, 6, 4)), "input/dtype", "state 'kept' is float64, expected float32"),
        ("kept", np.zeros((1, 6, 5), np.float32), "input/state", "has shape [1, 6, 5]"),
    ],
)
@pytest.mark.parametrize("calls", [0, 2])
def test_wrong_states_are_reported_at_the_next_call(
    cache: DynamicModel, calls: int, name: str, array: Array, rule: str, words: str
) -> None:
    session = cache.session()
    for _ in range(calls):
        session(rows(2)[None])
    before = dict(session.states)
    session.states[name] = array
    for _ in range(2):  # not only once
        with pytest.raises(NnefError) as caught:
            session(rows(1)[None])
        assert caught.value.errors[0].rule == rule
        assert words in str(caught.value)
    del session.states[name]
    session.states.update(before)
    assert session(rows(1)[None])[0].shape == (1, 2 * calls + 1, 4)


@pytest.mark.parametrize("value", [None, [[[1.0] * 4]], "rows", {"kept": 1}])
def test_states_must_be_arrays(cache: DynamicModel, value: Any) -> None:
    session = cache.session()
    with pytest.raises(NnefError, match=r"state 'kept' is a .* expected an array"):
        session.states["kept"] = value
    assert not session.states


def test_states_go_from_session_to_session(cache: DynamicModel) -> None:
    first, second = cache.session(), cache.session()
    first(rows(3)[None])
    second.states.update(first.states)
    assert second(rows(2)[None])[0].shape == (1, 5, 4)
    assert first(rows(1)[None])[0].shape == (1, 4, 4)
    assert repr(cache.session()).endswith("without states>")
    assert repr(second) == (
        "<Session of <DynamicModel g(x: [1,S,4]) -> (all, total)> with states kept: float32[1,5,4]>"
    )


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_independent(cache: DynamicModel, copied: Callable[[Session], Session]) -> None:
    first, parts = cache.session(), [rows(n)[None] for n in (3, 2, 1)]
    first(parts[0])
    second = copied(first)
    for part in parts[1:]:
        first(-part)
        second(part)
    np.testing.assert_array_equal(second.states["kept"], np.concatenate(parts, axis=1))
    wanted = np.concatenate([parts[0], -parts[1], -parts[2]], axis=1)
    np.testing.assert_array_equal(first.states["kept"], wanted)


def test_states_are_pickled_without_their_session(cache: DynamicModel) -> None:
    first, second = cache.session(), cache.session()
    first(rows(3)[None])
    with pytest.raises(NnefError, match=r"dict\(session.states\) can be pickled"):
        pickle.dumps(first)
    second.states.update(pickle.loads(pickle.dumps(dict(first.states))))
    assert second(rows(2)[None])[0].shape == (1, 5, 4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("datum_type", ["f32", "f16", "i64", "u8", "bool"])
def test_a_state_grows_in_place_along_any_axis(
    tmp_path: Path, datum_type: str, axis: int, threads: int
) -> None:
    dims = ["3", "2", "5"]
    dims[axis] = "S"
    body = f"""graph g(x) -> (all) {{
      x = tract_core_external(shape = [{", ".join(dims)}], datum_type = '{datum_type}');
      all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = {axis},
        datum_type = '{datum_type}');
    }}"""
    registries = "extension tract_registry tract_transformers;\nextension tract_symbol S;\n"
    session = model(tmp_path, body, registries, threads=threads).session()
    dtype = {"f32": "f4", "f16": "f2", "i64": "i8", "u8": "u1", "bool": "?"}[datum_type]
    rng, parts = np.random.default_rng(axis), list[Array]()
    kept: list[tuple[Array, Array]] = []
    for count in (4, 1, 1, 30, 1, 0, 1, 1, 90, 2, 1):
        shape = [count if extent == "S" else int(extent) for extent in dims]
        parts.append(rng.integers(0, 2 if dtype == "?" else 200, shape).astype(dtype))
        whole = np.concatenate(parts, axis)
        np.testing.assert_array_equal(session(parts[-1]), whole)
        kept.append((session.states["kept"], whole))
        for state, was in kept:
            np.testing.assert_array_equal(state, was)


def test_sessions_may_run_concurrently(cache: DynamicModel) -> None:
    """Each session has its own copy of the parameters of the shared plan."""

    def grow(seed: int) -> None:
        session, parts = cache.session(), list[Array]()
        for count in np.random.default_rng(seed).integers(1, 4, 40):
            parts.append(rows(int(count))[None])
            whole = np.concatenate(parts, axis=1)
            found, total = session(parts[-1])
            np.testing.assert_array_equal(found, whole)
            np.testing.assert_allclose(total, whole.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(grow, seed) for seed in range(12)]:
            each.result()


def test_a_cache_has_a_symbolic_plan_from_its_second_call_on(cache: DynamicModel) -> None:
    session = cache.session()
    session(rows(40)[None])
    for _ in range(20):
        session(rows(1)[None])
    assert cache._plans.symbolic_plans == 2  # pyright: ignore[reportPrivateUsage]


USES: dict[str, Callable[[Any], object]] = {
    "for_shapes": lambda model: model.for_shapes({"x": (1, 1, 4)}),
    "plan": lambda model: model.plan,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("shapes", [None, {"x": (1, 1, 4)}])
def test_uses_that_would_lose_states_are_errors(
    cache: DynamicModel, tmp_path: Path, use: str, shapes: Any
) -> None:
    """Plans and fixed-shape models cannot hold states."""
    del cache
    fixed = nnefc.compile(tmp_path, shapes=shapes)
    with pytest.raises(NnefError, match=rf"{use}: operators of this model keep states \(kept\)"):
        USES[use](fixed)


def test_graphs_with_states_are_not_compiled(cache: DynamicModel, tmp_path: Path) -> None:
    del cache
    graph = nnefc.import_model(tmp_path, shapes={"x": (1, 1, 4)})
    assert graph.output_names == ["all", "total", "state:kept"]
    with pytest.raises(NnefError, match=r"a graph: operators of this model keep states \(kept\)"):
        nnefc.compile(graph)
    with pytest.raises(NnefError, match="flatten/state"):
        nnefc.save_archive(tmp_path / "net.nnef.tgz", graph)


@pytest.mark.parametrize("how", ["", ", reset_every_turn = 1", ", external_state = 1"])
def test_loops_begin_anew_in_every_call(tmp_path: Path, how: str) -> None:
    """This holds for calls of a session too."""
    sums = model(
        tmp_path,
        f"""fragment step(x: tensor<scalar>, sum: tensor<scalar>) -> (new: tensor<scalar>)
        {{ new = sum + x; }}
        graph g(x, first) -> (total) {{
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          first = tract_core_external(shape = [1, 4], datum_type = 'f32');
          total = tract_core_scan('step', scan = [('x', x, 0, 1)], full = [],
            state = [('sum', first, 'new')], output = [('new', 'last', 0, 1)]{how});
        }}""",
        "extension tract_symbol S;\n",
    )
    session = sums.session()
    for count in (3, 2, 1):
        first = np.full((1, 4), float(count), np.float32)
        want = first + rows(count).sum(0)
        np.testing.assert_allclose(session(rows(count), first), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(sums(rows(count), first), want, rtol=1e-5, atol=1e-6)


def test_a_cache_may_be_empty(cache: DynamicModel) -> None:
    """Without tokens the cache has no items, and their sum is 0."""
    found, total = cache(np.zeros((1, 0, 4), np.float32))
    assert found.shape == (1, 0, 4)
    np.testing.assert_array_equal(total, np.zeros((1, 1, 4)))
    assert cache(rows(2)[None])[0].shape == (1, 2, 4)


def test_a_state_without_items_grows(tmp_path: Path) -> None:
    """The length of a state grows even with an empty batch."""
    session = model(
        tmp_path,
        """graph g(x) -> (all) {
          x = tract_core_external(shape = [B, S, 4], datum_type = 'f32');
          all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1);
        }""",
        "extension tract_registry tract_transformers;\nextension tract_symbol B;\n"
        "extension tract_symbol S;\n",
    ).session()
    for batch in (0, 2, 0):
        length = 0
        for count in (3, 1, 40, 0, 1):
            length += count
            assert session(np.ones((batch, count, 4), np.float32)).shape == (batch, length, 4)
            assert session.shapes == {"kept": (batch, length, 4)}
        session.reset()


def test_a_running_mean(tmp_path: Path) -> None:
    mean = model(
        tmp_path,
        """graph g(x) -> (y) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = tract_extra_exp_mean_norm(x, [0.0, 0.0, 0.0, 0.0], axis = 0, alpha = 0.9,
            scaling_factor = 2.0);
        }""",
        "extension tract_registry tract_extra;\nextension tract_symbol S;\n",
    )
    x, state = rows(12), np.zeros(4)
    want = np.zeros((12, 4))
    for i, row in enumerate(x):
        state = 0.1 * row + 0.9 * state
        want[i] = (row - state) / 2
    found = np.concatenate([mean(x[:5]), mean(x[5:6]), mean(x[6:])])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_data_dependent_extents(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        """graph g(x) -> (y) {
          x = tract_core_external(shape = [3, 4], datum_type = 'f32');
          z = tract_onnx_non_zero(x, count_symbol = 'n');
          y = transpose(tract_core_cast(z, to = 'i32') + 1, axes = [1, 0]);
        }""",
        "extension tract_registry tract_onnx;\nextension tract_symbol n;\n",
    )
    random = np.random.default_rng(0)
    for _ in range(4):
        x = (random.integers(0, 3, (3, 4)) * random.integers(0, 2, (3, 4))).astype(np.float32)
        np.testing.assert_array_equal(found(x), np.stack(np.nonzero(x)).T + 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_tensors_with_data_dependent_extents_are_summed(tmp_path: Path, axis: int) -> None:
    found = model(
        tmp_path,
        f"""graph g(x) -> (y) {{
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = sum_reduce(tract_onnx_non_zero(x, count_symbol = 'n'), axes = [{axis}]);
        }}""",
        "extension tract_registry tract_onnx;\nextension tract_symbol S;\n",
    )
    x = rows(3)
    x[1] = 0
    want = np.stack(np.nonzero(x)).sum(axis, keepdims=True)
    np.testing.assert_array_equal(found(x), want)


def test_data_dependent_extents_need_no_declaration(tmp_path: Path) -> None:
    """The results of operators, not their names, determine which results are cut."""
    numbers = model(
        tmp_path,
        """graph g(first) -> (y) {
          first = tract_core_external(shape = [1], datum_type = 'i64');
          y = tract_core_range(first, 5, 1);
        }""",
        "",
    )
    for first in (0, 2, 5):
        found = numbers(np.array([first]))
        np.testing.assert_array_equal(found, np.arange(first, 5))
