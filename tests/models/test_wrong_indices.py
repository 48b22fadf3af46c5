"""Indices out of range: every way to run a model reports the first one, and no state changes."""

from __future__ import annotations

import gc
import math
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc import NnefError
from nnefc.ir import DType, Graph, TensorType
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.artifacts.saved import compiled
from tests.helpers.collection import collect_and_freeze
from tests.helpers.examples import examples
from tests.helpers.index_errors import index_error
from tests.helpers.kernels.one_op import Array, normal, run

SETTINGS = examples(0.6)
EMBEDDING = """\
version 1.0;
extension tract_registry tract_core;
graph embedding( ids ) -> ( rows )
{
    ids = external<integer>(shape = [2, 3]);
    table = variable(label = 'table', shape = [10, 4]);
    rows = tract_core_gather(table, ids, axis = 0);
}
"""
VALID = np.array([[0, 9, 2], [3, -10, -1]])
WRONG = np.array([[0, 9, 2], [3, 10, -11]])
MESSAGE = "gather %rows: index 10 at [1, 1] of 'ids' is not in the range -10 to 9"
HINT = "compiled with check_indices=False, the model uses the nearest item instead"


def embedding(folder: Path, **options: Any) -> Any:
    return compiled(folder, EMBEDDING, **options)


def one_op(name: str, *arrays: Array, **attributes: Any) -> tuple[Graph, dict[str, Array]]:
    """A graph of one operation, and its inputs x0, x1 ..."""
    graph = Graph("one")
    values = [
        graph.add_input(TensorType(DType(x.dtype.name), x.shape), f"x{i}")
        for i, x in enumerate(arrays)
    ]
    result = build(graph, name, values, attributes).output
    result.name = "y"
    graph.add_output(result)
    return graph, {value.name: x for value, x in zip(values, arrays, strict=True)}


# -- operations


def first_wrong(indices: Array, extents: list[int]) -> tuple[list[int], int] | None:
    """Position and value of the first index that is outside its extent."""
    for position in np.ndindex(*indices.shape):
        extent = extents[position[-1] if len(extents) > 1 else 0]
        if not -extent <= indices[position] < extent:
            return [*position], int(indices[position])
    return None


@st.composite
def indexed(draw: st.DrawFn) -> tuple[str, list[Array], list[int], dict[str, Any]]:
    """(operation, arrays, extents that the indices select from, attributes)"""
    name = draw(
        st.sampled_from(
            ["gather", "gather_elements", "scatter_elements", "gather_nd", "scatter_nd"]
        )
    )
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    x, axis = normal(1, *shape), draw(st.integers(0, len(shape) - 1))
    dtype = draw(st.sampled_from(["int32", "int64"]))
    index = st.integers(-6, 6)

    def numbers(*extents: int) -> Array:
        count = math.prod(extents)
        items = draw(st.lists(index, min_size=count, max_size=count))
        return np.array(items, dtype).reshape(extents)

    if name == "gather":
        return (
            name,
            [x, numbers(*draw(st.sampled_from([(), (3,), (2, 2)])))],
            [shape[axis]],
            {"axis": axis},
        )
    if name.endswith("elements"):
        extents = [draw(st.integers(1, n)) for n in shape]
        extents[axis] = draw(st.integers(1, 4))
        more = [normal(2, *extents)] if name.startswith("scatter") else []
        return name, [x, numbers(*extents), *more], [shape[axis]], {"axis": axis}
    depth = draw(st.integers(1, len(shape)))
    where = numbers(3, depth)
    more = [normal(2, 3, *shape[depth:])] if name.startswith("scatter") else []
    return name, [x, where, *more], [*shape[:depth]], {}


@SETTINGS
@given(indexed(), st.sampled_from([1, 3]))
def test_the_first_wrong_index_is_reported(
    case: tuple[str, list[Array], list[int], dict[str, Any]], threads: int
) -> None:
    name, arrays, extents, attributes = case
    graph, inputs = one_op(name, *arrays, **attributes)
    model = CompiledModel.of(lower(graph), graph, threads=threads)
    wrong = first_wrong(arrays[1], extents)
    if wrong is None:
        want = evaluate(graph, inputs).outputs["y"]
        np.testing.assert_allclose(model(*arrays), want, rtol=1e-6)
        return
    position, value = wrong
    found = index_error(model, *arrays)
    at = f" at {position}" if position else ""
    extent = extents[position[-1]] if len(extents) > 1 else extents[0]
    assert found.message == (
        f"{name} %y: index {value}{at} of 'x1' is not in the range {-extent} to {extent - 1}"
    )
    assert index_error(evaluate, graph, inputs) == found


@pytest.mark.parametrize("name", ["avg_roi_pool", "max_roi_pool", "roi_resample", "max_roi_align"])
@pytest.mark.parametrize("wrong", [-1, 2])
def test_batch_indices_of_regions_do_not_count_from_the_end(name: str, wrong: int) -> None:
    x, rois = normal(1, 2, 3, 5, 6), np.array([[0, 0, 4, 4]] * 3, np.float32)
    batch = np.array([[1], [wrong], [9]], np.int32)
    more = {"sampling_rate": (2, 2)} if name.endswith("align") else {}
    graph, inputs = one_op(name, x, rois, batch, output_size=(2, 2), **more)
    message = f"index {wrong} at [1, 0] of 'x2' is not in the range 0 to 1"
    found = index_error(nnefc.compile(graph), *inputs.values())
    assert found.message.partition(": ")[2] == message
    assert index_error(evaluate, graph, inputs).message.partition(": ")[2] == message


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_does_not_depend_on_the_number_of_tiles(threads: int) -> None:
    table, ids = normal(1, 50, 700), np.zeros(9000, np.int64)
    ids[[700, 5000, 8999]] = 50, -51, 2**40
    graph, _ = one_op("gather", table, ids)
    model = nnefc.compile(graph, threads=threads)
    assert any(each.tiles > 1 for each in model.launches)
    for _ in range(20):
        assert "index 50 at [700] of 'x1'" in index_error(model, table, ids).message
    np.testing.assert_array_equal(model(table, ids % 50), table[ids % 50])


def test_a_table_without_items_has_no_index() -> None:
    for name in ("gather", "gather_elements"):
        x, at = np.zeros((0, 3), np.float32), np.zeros((2, 3), np.int64)
        with pytest.raises(NnefError, match=r"index 0 at .* is not in an extent of 0"):
            run(name, x, at, axis=0)
    with pytest.raises(NnefError, match=r"index 0 at .* is not in an extent of 0"):
        run("gather_nd", np.zeros((2, 0, 3), np.float32), np.zeros((2, 2), np.int64))


EMPTY = np.zeros((0, 3), np.float32)
EMPTY_TABLES: list[tuple[str, list[Array], dict[str, Any]]] = [
    ("gather", [EMPTY, np.zeros((5, 2), np.int64)], {"axis": 0}),
    ("gather", [EMPTY.T, np.zeros(7, np.int64)], {"axis": 1}),
    ("gather_elements", [EMPTY, np.zeros((4, 3), np.int64)], {"axis": 0}),
    ("gather_nd", [np.zeros((2, 0, 3), np.float32), np.zeros((5, 2), np.int64)], {}),
    *(
        (
            name,
            [
                np.zeros((0, 2, 5, 6), np.float32),
                np.array([[0, 0, 4, 4]] * 3, np.float32),
                np.zeros((3, 1), np.int32),
            ],
            {"output_size": (2, 2)},
        )
        for name in ("avg_roi_pool", "max_roi_pool", "roi_resample")
    ),
]


@pytest.mark.parametrize(("name", "arrays", "attributes"), EMPTY_TABLES)
@pytest.mark.parametrize("threads", [1, 3])
def test_unchecked_indices_of_a_table_without_items_select_zeros(
    name: str, arrays: list[Array], attributes: dict[str, Any], threads: int
) -> None:
    got = run(name, *arrays, check_indices=False, threads=threads, **attributes)
    graph, inputs = one_op(name, *arrays, **attributes)
    want = evaluate(graph, inputs, check_indices=False).outputs["y"]
    assert not want.any()
    np.testing.assert_array_equal(got, np.zeros(want.shape))


def test_unchecked_indices_of_a_result_without_items_have_no_effect() -> None:
    arrays = [EMPTY, np.zeros((2, 1), np.int64), normal(1, 2, 3)]
    graph, inputs = one_op("scatter_nd", *arrays, reduction="add")
    assert evaluate(graph, inputs, check_indices=False).outputs["y"].shape == (0, 3)
    assert nnefc.compile(graph, check_indices=False)(*arrays).shape == (0, 3)


# -- ways to call


def test_every_call_reports_and_the_next_one_works(tmp_path: Path) -> None:
    model = embedding(tmp_path)
    table = model.variables["table"]
    calls: list[Callable[[Array], Any]] = [
        model,
        lambda ids: model(ids, out=np.empty((2, 3, 4), np.float32)),
        lambda ids: model(np.asfortranarray(ids)),
        lambda ids: model.run({"ids": ids})["rows"],
    ]
    for call in calls:
        for _ in range(2):
            found = index_error(call, WRONG)
            assert (found.message, found.hint) == (MESSAGE, HINT)
            assert (found.line, found.column) == (8, 12)
            np.testing.assert_array_equal(call(VALID), table[VALID])
    assert index_error(model.profile, WRONG, seconds=0.01).message == MESSAGE


def test_native_calls_that_fail_leak_nothing(tmp_path: Path) -> None:
    model = embedding(tmp_path)
    assert model._fast is not None
    collect_and_freeze()
    before = sys.getrefcount(NotImplemented), sys.getrefcount(model.outputs[0].dtype)
    for _ in range(200):
        index_error(model, WRONG)
    gc.collect()
    after = sys.getrefcount(NotImplemented), sys.getrefcount(model.outputs[0].dtype)
    assert abs(after[0] - before[0]) < 50
    assert abs(after[1] - before[1]) < 50


def test_calls_at_the_same_time_have_their_own_errors(tmp_path: Path) -> None:
    graph, _ = one_op("gather", normal(1, 50, 64), np.zeros(4000, np.int64))
    model = nnefc.compile(graph, threads=2)
    table, problems = normal(1, 50, 64), list[str]()

    def work(number: int) -> None:
        ids = np.zeros(4000, np.int64)
        ids[number] = 50 + number
        for _ in range(30):
            if number % 2:
                if not np.array_equal(model(table, ids % 50), table[ids % 50]):
                    problems.append("wrong result")
            else:
                message = index_error(model, table, ids).message
                if f"index {50 + number} at [{number}]" not in message:
                    problems.append(message)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_without_checks_the_nearest_item_is_used(tmp_path: Path) -> None:
    model = embedding(tmp_path, check_indices=False)
    table = model.variables["table"]
    nearest = np.array([[0, 9, 2], [3, 9, 0]])
    np.testing.assert_array_equal(model(WRONG), table[nearest])
    path = tmp_path / "unchecked.nnefc"
    model.save(path)
    np.testing.assert_array_equal(nnefc.load(path)(WRONG), table[nearest])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(WRONG), table[nearest])
    with pytest.raises(NnefError, match="check_indices = 2: must be True or False"):
        embedding(tmp_path, check_indices=2)


def test_artifacts_report_with_names_and_places(tmp_path: Path) -> None:
    model = embedding(tmp_path)
    want = index_error(model, WRONG)
    path, again = tmp_path / "a.nnefc", tmp_path / "b.nnefc"
    model.save(path)
    loaded = nnefc.load(path)
    assert index_error(loaded, WRONG) == want
    loaded.save(again)
    assert index_error(nnefc.load(again), WRONG) == want
    assert index_error(pickle.loads(pickle.dumps(model)), WRONG) == want
