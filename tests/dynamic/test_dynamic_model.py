"""Models with symbols for extents."""

from __future__ import annotations

import inspect
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.dynamic import plan_cache
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.memory.weight_pool import WeightPool
from tests.helpers.graphs.dynamic_models import model, rows

Array = np.ndarray[Any, Any]


@pytest.fixture
def linear(tmp_path: Path) -> DynamicModel:
    """y = x w^T, of S rows."""
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    return model(
        tmp_path,
        """graph g(x) -> (y) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          w = variable<scalar>(label = 'w', shape = [3, 4]);
          y = linear(x, w, 0.0);
        }""",
        "extension tract_symbol S;\nextension tract_assert S >= 2;\n",
        w=w,
    )


def expected(x: Array) -> Array:
    return x @ np.arange(12, dtype=np.float32).reshape(3, 4).T


def test_lengths_are_bound_at_the_call(linear: DynamicModel) -> None:
    for count in (5, 2, 17, 64, 5):
        x = rows(count)
        np.testing.assert_allclose(linear(x), expected(x), rtol=1e-5, atol=1e-5)
    assert linear.plans == 4
    assert linear.symbols == ["S"]
    assert str(linear.shapes[0]) == "x: [S,4]"
    assert linear.inputs[0].shape == (-1, 4)
    assert "x: [S,4]" in repr(linear)


def test_outputs_may_be_given(linear: DynamicModel) -> None:
    x, y = rows(6), np.zeros((6, 3), np.float32)
    assert linear(x, out=y) is y
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)
    y[:] = 0
    found = linear.run({"x": x}, {"y": y})
    assert found["y"] is y
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "out", "words"),
    [
        ({}, {}, "input 'x' is missing"),
        ({"x": rows(2), "z": rows(2)}, {}, "no input is named 'z'"),
        ([rows(2)], {}, "expected arrays by name"),
        ({"x": rows(2)}, {"z": rows(2)}, "no output is named 'z'"),
        ({"x": rows(2)}, {"y": np.zeros((7, 3), np.float32)}, r"shape \[7, 3\], expected \[2, 3\]"),
    ],
)
def test_arrays_by_name_are_checked(
    linear: DynamicModel, inputs: Any, out: Any, words: str
) -> None:
    with pytest.raises(NnefError, match=words):
        linear.run(inputs, out)


def test_results_may_repeat_a_name(tmp_path: Path) -> None:
    """In dictionaries, later results of the same name get a number."""
    twice = model(
        tmp_path,
        """graph g(x) -> (y, y) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = -x;
        }""",
    )
    found = twice.run({"x": rows(2)})
    assert list(found) == twice.output_names == ["y", "y_2"]
    first, second = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32)
    twice(rows(2), out=[first, second])
    np.testing.assert_array_equal(first, -rows(2))
    np.testing.assert_array_equal(second, -rows(2))


@pytest.mark.parametrize(
    ("arrays", "rule", "words"),
    [
        ([np.zeros((1, 4), np.float32)], "tract/assert", "S >= 2"),
        (
            [np.zeros((3, 5), np.float32)],
            "input/shape",
            "is [S,4], but [3,5] is given: axis 1 has to be 4, not 5",
        ),
        ([np.zeros(4, np.float32)], "input/shape", "rank"),
        ([np.zeros((3, 4), np.float64)], "input/dtype", "float32"),
        ([None], "input/array", "input 'x' is a NoneType, expected an array x: float32[S,4]"),
        ([[[1.0, 2.0]]], "input/array", "input 'x' is a list"),
        ([{"x": rows(3)}], "input/array", "model.run"),
        ([], "input/count", "expected 1"),
        ([np.zeros((3, 4), np.float32)] * 2, "input/count", "2 arrays"),
    ],
)
def test_errors_of_calls(linear: DynamicModel, arrays: list[Array], rule: str, words: str) -> None:
    with pytest.raises(NnefError) as caught:
        linear(*arrays)
    assert caught.value.errors[0].rule == rule
    assert words in str(caught.value)
    if "is a list" in words:
        assert caught.value.errors[0].hint == "make it one: numpy.array(x, dtype=numpy.float32)"


@pytest.mark.parametrize(
    ("shapes", "rule", "words"),
    [
        (None, "input/argument", "shapes = None"),
        ([("x", (3, 4))], "input/argument", "expected shapes by name"),
        ({"x": 3}, "input/argument", "shapes['x'] = 3"),
        ({"x": "3,4"}, "input/argument", "shapes['x'] = '3,4'"),
        ({"x": (3, 4.5)}, "input/argument", "shapes['x'] = (3, 4.5)"),
        ({"x": ("S", 4)}, "input/argument", "expected integers"),
        ({"x": (True, 4)}, "input/argument", "expected integers"),
        ({"z": (3, 4)}, "input/shape", "no input 'z'; it has x"),
        ({"S": 3}, "input/argument", "shapes['S'] = 3"),
        ({"S": (3,)}, "input/shape", "'S' is a symbol: x: [S,4]"),
        ({"x": (1 << 70, 4)}, "input/shape", "does not fit in 64 bits"),
        ({"x": (3, 5)}, "input/shape", "axis 1 has to be 4, not 5"),
        ({"x": (1, 4)}, "tract/assert", "S >= 2"),
    ],
)
def test_shapes_are_checked(
    linear: DynamicModel, tmp_path: Path, shapes: Any, rule: str, words: str
) -> None:
    with pytest.raises(NnefError) as caught:
        linear.for_shapes(shapes)
    assert caught.value.errors[0].rule == rule
    assert words in str(caught.value)
    if shapes is not None:
        with pytest.raises(NnefError) as again:
            nnefc.compile(tmp_path, shapes=shapes)
        assert again.value.errors == caught.value.errors


def test_inputs_of_known_shapes_may_be_left_out(tmp_path: Path) -> None:
    both = model(
        tmp_path,
        """graph g(x, y, z) -> (w) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = tract_core_external(shape = [2*S + 1, T], datum_type = 'f32');
          z = tract_core_external(shape = [2 + 2, 1], datum_type = 'f32');
          w = sum_reduce(x, axes = [0, 1]) + sum_reduce(y, axes = [0, 1])
            + sum_reduce(z, axes = [0, 1]);
        }""",
    )
    with pytest.raises(NnefError, match=r"input 'y' has no shape: it is y: float32\[2\*S\+1,T\]"):
        both.for_shapes({"x": (3, 4)})
    assert both.for_shapes({"x": (3, 4), "y": (7, 2)}).inputs[2].shape == (4, 1)
    part = nnefc.compile(tmp_path, shapes={"x": (3, 4)})
    assert isinstance(part, DynamicModel)
    assert part.symbols == ["T"]
    assert ", ".join(map(str, part.shapes)) == "x: [3,4], y: [7,T], z: [4,1]"
    assert [spec.shape for spec in part.inputs] == [(3, 4), (7, -1), (4, 1)]
    assert "(x: [3,4], y: [7,T], z: [4,1])" in repr(part)
    assert part.for_shapes({"y": (7, 5)}).inputs[1].shape == (7, 5)
    with pytest.raises(NnefError, match=r"model\.for_shapes\({'x': \(3, 4\), 'y': \(7, \d+\)"):
        part.emit_c(tmp_path / "net")


def test_contradictory_symbols_are_an_error(tmp_path: Path) -> None:
    both = model(
        tmp_path,
        """graph g(x, y) -> (z) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = tract_core_external(shape = [2*S + 1, 4], datum_type = 'f32');
          z = concat([x, y], axis = 0);
        }""",
    )
    assert both(rows(3), rows(7)).shape == (10, 4)
    for wrong in (6, 8):
        with pytest.raises(NnefError, match="input/shape"):
            both(rows(3), rows(wrong))


def test_least_recently_used_plans_are_evicted(
    linear: DynamicModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "MAX_PLANS", 3)
    made = [linear.for_shapes({"x": (n, 4)}) for n in (2, 3, 4)]
    assert linear.for_shapes({"x": (2, 4)}) is made[0]  # used last now
    linear(rows(5))
    assert linear.plans == 3
    assert linear.for_shapes({"x": (2, 4)}) is made[0]
    assert linear.for_shapes({"x": (3, 4)}) is not made[1]
    monkeypatch.setattr(plan_cache, "PLAN_BYTES", 0)
    linear(rows(9))
    assert linear.plans == 1


def test_one_plan_of_fixed_shapes_can_be_saved(linear: DynamicModel, tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="for_shapes"):
        _ = linear.plan
    one = linear.for_shapes({"x": (3, 4)})
    works = {"inputs", "run", "profile", "reset", "save", "emit_c"}
    public = {name for name in {*vars(one), *dir(type(one))} if hasattr(one, name)}
    public = {name for name in public if not name.startswith("_")}
    assert {"outputs", "plan", "graph", "variables", "threads"} < public
    facts = {"outputs", "variables", "threads", "threads_wanted", "nbytes", "constant_bytes"}
    assert [spec.shape for spec in linear.outputs] == [(-1, 3)]
    assert (linear.threads, linear.threads_wanted) == (one.threads, one.threads_wanted)
    assert not dict(linear.variables)
    for name in public - works - facts - {"call_bytes", "of", "patch", "refusal"}:
        with pytest.raises(NnefError, match="for_shapes"):
            getattr(linear, name)
        assert not hasattr(linear, name)
    assert all(isinstance(each, nnefc.Model) for each in (one, linear))
    assert not isinstance(linear, nnefc.CompiledModel)
    with pytest.raises(NnefError, match="for_shapes"):
        linear.emit_c(tmp_path / "c")
    assert not hasattr(linear, "no_such_thing")
    assert getattr(linear, "plan", None) is None
    assert dict(inspect.getmembers(linear))["output_names"] == linear.output_names
    for name in ("for_shapes", "session", "symbols"):
        with pytest.raises(NnefError, match=f"{name}: this model is compiled for known shapes"):
            getattr(one, name)
        assert not hasattr(one, name) and name not in dir(one) and name in dir(linear)
    wrong: Any = {"shapes": {"S": 3}}
    with pytest.raises(NnefError, match=r"shapes=: this model.*x: float32\[3,4\]"):
        one.save(tmp_path / "net.nnefc", **wrong)
    for each in (one, linear):
        wrong = {"progress": 3}
        with pytest.raises(NnefError, match="progress = 3"):
            each.save(tmp_path / "net.nnefc", **wrong)
        with pytest.raises(NnefError, match="progress = 3"):
            each.emit_c(tmp_path / "c", **wrong | ({"shapes": {"S": 3}} if each is linear else {}))
    for wrong in (["x"], "x", {"x": 1}):
        with pytest.raises(NnefError, match="expected names of outputs by those of inputs"):
            linear.session(states=wrong)
    for wrong in ({"shapes": {"S": 3}}, {"state_capacity": 9}):
        with pytest.raises(NnefError, match=f"{next(iter(wrong))}=: this model"):
            one.emit_c(tmp_path / "c", **wrong)
    linear.for_shapes({"x": (3, 4)}).save(tmp_path / "net.nnefc")
    x = rows(3)
    found = nnefc.load(tmp_path / "net.nnefc")(x)
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)
    fixed = nnefc.compile(tmp_path, shapes={"x": (3, 4)})
    assert not isinstance(fixed, DynamicModel)
    np.testing.assert_allclose(fixed(x), expected(x), rtol=1e-5, atol=1e-5)


def test_weights_are_packed_once(linear: DynamicModel) -> None:
    for count in (2, 3, 9, 40, 70):
        linear(rows(count))
    assert 0 < linear.constant_bytes <= 4 * 16 * 4 * 4, "one packing of 3 rows"


def test_weights_are_packed_for_each_type() -> None:
    """The same items may be read as they are stored, and wider, in panels of the same sizes."""
    shared, stored = WeightPool(), np.arange(32, dtype=np.float16).reshape(2, 16)
    shared.keep(stored)
    for dtype in (None, np.dtype(np.float32)):
        packed = shared.packed(PackedWeight(stored, "panels", (1, 16), dtype))
        assert packed.dtype == (dtype or stored.dtype)
        np.testing.assert_array_equal(packed, stored.reshape(-1))


def test_concurrent_calls_from_many_threads(linear: DynamicModel) -> None:
    wrong: list[int] = []

    def calls(count: int) -> None:
        session = linear.session()
        for i in range(20):
            x = rows(2 + (count + i) % 7)
            if not np.allclose(session(x), expected(x), rtol=1e-4, atol=1e-4):
                wrong.append(count)

    threads = [threading.Thread(target=calls, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_with_cached_plans_do_not_wait_for_new_ones(
    linear: DynamicModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan takes seconds if its kernels are compiled; one thread makes it, once."""
    linear(rows(3))
    making, may_end, made = threading.Event(), threading.Event(), list[Any]()
    plan = plan_cache.PlanCache._plan  # pyright: ignore[reportPrivateUsage]

    def slow(self: plan_cache.PlanCache, shapes: Any, *others: Any) -> Any:
        made.append(shapes["x"])
        making.set()
        assert may_end.wait(60)
        return plan(self, shapes, *others)

    monkeypatch.setattr(plan_cache.PlanCache, "_plan", slow)
    results: list[Array] = []
    threads = [threading.Thread(target=lambda: results.append(linear(rows(5)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert making.wait(60)
    cached = threading.Thread(target=lambda: results.append(linear(rows(3))))
    cached.start()
    cached.join(60)
    assert [y.shape for y in results] == [(3, 3)]
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert made == [(5, 4)]
    for y in results[1:]:
        np.testing.assert_allclose(y, expected(rows(5)), rtol=1e-4, atol=1e-4)
    assert len(results) == 3


def test_an_input_without_items(tmp_path: Path) -> None:
    joined = model(
        tmp_path,
        """graph g(past, x) -> (y, twice) {
          past = tract_core_external(shape = [P, 4], datum_type = 'f32');
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          y = concat([past, x], axis = 0);
          twice = past * 2.0;
        }""",
        "extension tract_symbol S;\nextension tract_symbol P;\n",
    )
    for count in (0, 3, 0):
        past = rows(count).reshape(count, 4)
        y, twice = joined(past, rows(2))
        np.testing.assert_array_equal(y, np.concatenate([past, rows(2)]))
        np.testing.assert_array_equal(twice, 2 * past)
