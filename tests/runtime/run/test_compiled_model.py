"""Calls of `CompiledModel`: accepted and refused arguments, results, concurrent calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.lower import lower
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError

F32, BOOL = DType.FLOAT32, DType.BOOL


def two_inputs() -> CompiledModel:
    """A model with the results a [2, 3] + b [2], and a > 0."""
    graph = Graph("two")
    a = graph.add_input(TensorType(F32, (2, 3)), "a")
    b = graph.add_input(TensorType(F32, (2,)), "b")
    zero = graph.insert(Op("constant", [], {"shape": (), "value": (0.0,)}, [TensorType(F32, ())]))
    total = graph.insert(Op("add", [a, b], {}, [TensorType(F32, (2, 3))]))
    above = graph.insert(Op("gt", [a, zero.output], {}, [TensorType(BOOL, (2, 3))]))
    graph.add_output(total.output, "total")
    graph.add_output(above.output, "above")
    return CompiledModel.of(lower(graph), graph, threads=1)


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    return two_inputs()


A = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
B = np.array([10, 20], np.float32)
TOTAL = A + B[:, None]


def rules(error: pytest.ExceptionInfo[NnefError]) -> list[str]:
    return [e.rule for e in error.value.errors]


def test_a_call_returns_the_results_and_the_model_describes_itself(model: CompiledModel) -> None:
    total, above = model(A, B)
    np.testing.assert_array_equal(total, TOTAL)
    np.testing.assert_array_equal(above, A > 0)
    assert total.dtype == np.float32
    assert above.dtype == np.bool_
    assert [str(s) for s in model.inputs] == ["a: float32[2,3]", "b: float32[2]"]
    assert [(s.name, s.shape, s.dtype) for s in model.outputs] == [
        ("total", (2, 3), np.dtype("float32")),
        ("above", (2, 3), np.dtype("bool")),
    ]
    assert repr(model).startswith("<CompiledModel two(a: float32[2,3]")
    assert model.threads == 1
    assert model.arena_bytes == 0
    assert [launch.tiles for launch in model.launches] == [1, 1]


def test_run_takes_and_returns_arrays_by_name(model: CompiledModel) -> None:
    results = model.run({"b": B, "a": A})
    assert list(results) == ["total", "above"]
    np.testing.assert_array_equal(results["total"], TOTAL)
    target = np.empty((2, 3), np.float32)
    results = model.run({"b": B, "a": A}, out={"total": target})
    assert results["total"] is target
    np.testing.assert_array_equal(target, TOTAL)


@pytest.mark.parametrize(
    "given",
    [
        np.asfortranarray(A),
        A[::-1][::-1],
        np.repeat(A, 2, axis=1)[:, ::2],
        np.frombuffer(b"x" + A.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
        np.broadcast_to(A, (1, 2, 3))[0],
        np.ma.masked_array(A),
    ],
    ids=["fortran", "flipped", "strided", "misaligned", "read-only", "masked"],
)
def test_arrays_of_any_memory_layout_are_accepted(model: CompiledModel, given: Any) -> None:
    np.testing.assert_array_equal(model(given, B)[0], TOTAL)


def test_pytorch_tensors_are_accepted(model: CompiledModel) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    np.testing.assert_array_equal(model(a, b)[0], TOTAL)
    np.testing.assert_array_equal(model(a.T.contiguous().T, b)[0], TOTAL)
    with pytest.raises(NnefError, match="detach") as caught:
        model(a.clone().requires_grad_(), b)
    assert rules(caught) == ["input/array"]
    with pytest.raises(NnefError, match="float64, expected float32"):
        model(a.double(), b)
    with pytest.raises(NnefError) as caught:
        model(a.bfloat16(), b)
    assert rules(caught) == ["input/array"]


def test_scalars_of_numpy_are_arrays_of_rank_0() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(F32, ()), "x")
    graph.add_output(graph.insert(Op("neg", [x], {}, [TensorType(F32, ())])).output, "y")
    model = CompiledModel.of(lower(graph), graph)
    assert model(np.float32(2.5)) == -2.5


class _OnAnotherDevice:
    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("must not be asked for")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize(
    ("arguments", "rule", "message"),
    [
        ((A,), "input/count", "1 arrays given, expected 2: a: float32[2,3], b: float32[2]"),
        ((A, B, B), "input/count", "3 arrays given"),
        ((A.T, B), "input/shape", "input 'a' has shape [3, 2], expected [2, 3]"),
        ((A.astype(np.float64), B), "input/dtype", "input 'a' is float64, expected float32"),
        ((A.astype(np.int32), B), "input/dtype", "int32, expected float32"),
        ((A.astype(">f4"), B), "input/byte-order", "bytes of its items swapped"),
        ((A.tolist(), B), "input/array", "input 'a' is a list"),
        ((None, B), "input/array", "input 'a' is a NoneType"),
        (({"a": A}, B), "input/array", "input 'a' is a dict"),
        ((np.array([["x"]]), B), "input/dtype", "expected float32"),
        ((_OnAnotherDevice(), B), "input/device", "not in the memory of the CPU"),
    ],
)
def test_wrong_arguments_are_errors(
    model: CompiledModel, arguments: tuple[Any, ...], rule: str, message: str
) -> None:
    with pytest.raises(NnefError) as caught:
        model(*arguments)
    assert rules(caught) == [rule]
    assert message in caught.value.errors[0].message


def test_all_wrong_arguments_are_reported(model: CompiledModel) -> None:
    with pytest.raises(NnefError) as caught:
        model(A.astype(np.float64), B[:1])
    assert rules(caught) == ["input/dtype", "input/shape"]
    assert "astype(numpy.float32)" in caught.value.errors[0].hint
    with pytest.raises(NnefError) as caught:
        model.run({"A": A, "c": B})
    assert rules(caught) == ["input/name"] * 4
    assert "inputs are a, b" in caught.value.errors[0].hint
    with pytest.raises(NnefError) as caught:
        model.run({"a": A, "b": B}, out={"sum": A})
    assert rules(caught) == ["input/name"]


def test_results_are_written_to_given_arrays(model: CompiledModel) -> None:
    total, above = np.empty((2, 3), np.float32), np.empty((2, 3), bool)
    got = model(A, B, out=(total, above))
    assert got[0] is total
    assert got[1] is above
    np.testing.assert_array_equal(total, TOTAL)
    strided = np.zeros((2, 6), np.float32)[:, ::2]
    model(A, B, out=[strided, above])
    np.testing.assert_array_equal(strided, TOTAL)


def test_results_are_written_to_pytorch_tensors(model: CompiledModel) -> None:
    torch = pytest.importorskip("torch")
    total, above = torch.empty(2, 3), np.empty((2, 3), bool)
    got = model(A, B, out=(total, above))
    assert got[0] is total
    np.testing.assert_array_equal(total.numpy(), TOTAL)
    strided = torch.zeros(3, 2).T
    got = model.run({"a": A, "b": B}, out={"total": strided})
    assert got["total"] is strided
    np.testing.assert_array_equal(strided.numpy(), TOTAL)
    graph = Graph()
    x = graph.add_input(TensorType(F32, (2, 3)), "x")
    graph.add_output(graph.insert(Op("neg", [x], {}, [TensorType(F32, (2, 3))])).output, "y")
    neg = CompiledModel.of(lower(graph), graph, threads=1)
    assert neg(A, out=total) is total  # alone, not a sequence of rows
    np.testing.assert_array_equal(total.numpy(), -A)
    with pytest.raises(NnefError, match="float64, expected float32"):
        neg(A, out=total.double())
    with pytest.raises(NnefError, match="gives no array"):
        neg(A, out=total.clone().requires_grad_())


class _ReadOnlyThroughDlpack:
    """An array whose DLPack view is read-only, as of PyTorch tensors with NumPy 1.26."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._copy = array.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("from_dlpack is replaced")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


@pytest.mark.parametrize("same", [True, False])
def test_results_go_through_array_if_dlpack_gives_read_only_memory(
    monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    def from_dlpack(given: Any) -> Any:
        view = (given._array if same else given._copy).view()
        view.flags.writeable = False
        return view

    monkeypatch.setattr(np, "from_dlpack", from_dlpack)
    total, above = np.zeros((2, 3), np.float32), np.empty((2, 3), bool)
    out = (_ReadOnlyThroughDlpack(total), above)
    if same:
        two_inputs()(A, B, out=out)
        np.testing.assert_array_equal(total, TOTAL)
    else:
        with pytest.raises(NnefError, match="read-only"):
            two_inputs()(A, B, out=out)


def test_calls_with_names_get_a_hint_about_run(model: CompiledModel) -> None:
    for arguments, out in (
        (({"a": A, "b": B},), None),
        (({"a": A}, B), None),
        ((A, B), {"total": np.empty((2, 3), np.float32)}),
    ):
        with pytest.raises(NnefError) as caught:
            model(*arguments, out=out)
        assert "model.run(" in caught.value.errors[0].hint


def test_hints_tell_how_to_create_an_output_array(model: CompiledModel) -> None:
    good = np.empty((2, 3), np.float32), np.empty((2, 3), bool)
    for wrong in (good[0].astype(np.float64), good[0][:1], good[0].astype(">f4"), [1]):
        with pytest.raises(NnefError) as caught:
            model(A, B, out=(wrong, good[1]))
        assert caught.value.errors[0].hint == "make it: numpy.empty((2, 3), numpy.float32)"


class _Frame(list[np.ndarray[Any, Any]]):
    shape = (2,)


def test_an_object_with_a_shape_is_no_sequence_of_targets(model: CompiledModel) -> None:
    out = _Frame([np.empty((2, 3), np.float32), np.empty((2, 3), bool)])
    with pytest.raises(NnefError, match="out is a _Frame, which has neither"):
        model(A, B, out=out)


def test_results_may_overwrite_inputs(model: CompiledModel) -> None:
    """Kernels may write outputs before they read inputs for the last time."""
    a = A.copy()
    total, above = model(a, B, out=(a, np.empty((2, 3), bool)))
    np.testing.assert_array_equal(total, TOTAL)
    np.testing.assert_array_equal(above, A > 0)


def test_wrong_output_arrays_are_errors(model: CompiledModel) -> None:
    total, above = np.empty((2, 3), np.float32), np.empty((2, 3), bool)
    readonly = np.empty((2, 3), np.float32)
    readonly.flags.writeable = False
    for out, message in (
        (total, "1 arrays in out, expected 2"),
        ((total, total), "bool"),
        ((total[:1], above), "shape"),
        ((readonly, above), "read-only"),
        (([1], above), "list"),
        (5, "1 arrays in out, expected 2"),
    ):
        with pytest.raises(NnefError, match=message):
            model(A, B, out=out)  # type: ignore[arg-type]
    for inputs, by_name in (([A, B], None), (None, None), ({"a": A, "b": B}, [total, above])):
        with pytest.raises(NnefError, match="expected arrays by name"):
            model.run(inputs, out=by_name)  # type: ignore[arg-type]
    shared = np.empty(4, np.float32)
    graph = Graph()
    x = graph.add_input(TensorType(F32, (3,)), "x")
    graph.add_output(x, "y")
    graph.add_output(x, "z")
    same = CompiledModel.of(lower(graph), graph, threads=1)
    with pytest.raises(NnefError, match="overlaps"):
        same(np.zeros(3, np.float32), out=(shared[:3], shared[1:]))


def test_concurrent_calls_have_separate_memory() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(F32, (20_000,)), "x")
    y = x
    for name in ("neg", "sqr", "sqrt", "neg"):
        y = graph.insert(Op(name, [y], {}, [TensorType(F32, (20_000,))])).output
    graph.add_output(y, "y")
    model = CompiledModel.of(lower(graph), graph, threads=2)

    def call(seed: int) -> bool:
        given = np.full(20_000, seed, np.float32)
        return all((model(given) == -seed).all() for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(1, 33)))


class _Meeting:
    """Replaces a team: no run ends before all callers have started theirs."""

    def __init__(self, callers: int) -> None:
        self._barrier = threading.Barrier(callers)

    def run(self, *_: Any) -> None:
        self._barrier.wait(30)

    run_alone = run


def test_few_idle_contexts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_inputs()
    model._native = None  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    runner = model._runner  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(runner, "team", _Meeting(12))
    with ThreadPoolExecutor(12) as pool:
        for call in [pool.submit(model, A, B) for _ in range(12)]:
            call.result()
    assert 1 <= len(runner._idle) <= 4  # pyright: ignore[reportPrivateUsage]


def test_results_too_large_for_memory_are_reported() -> None:
    """The result exceeds the address space of a process."""
    type_ = TensorType(F32, (1 << 47,))
    graph = Graph()
    x = graph.add_input(TensorType(F32, (1,)), "x")
    y = graph.insert(Op("tile", [x], {"repeats": (1 << 47,)}, [type_])).output
    graph.add_output(graph.insert(Op("neg", [y], {}, [type_])).output, "y")
    model = CompiledModel.of(lower(graph), graph, threads=1)
    with pytest.raises(NnefError, match=r"output 'y': 562,949,953,421,312 bytes") as caught:
        model(np.zeros(1, np.float32))
    assert rules(caught) == ["limit/memory"]


def test_input_copies_too_large_for_memory_are_reported() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(F32, (1 << 47,)), "x")
    graph.add_output(graph.insert(Op("neg", [x], {}, [x.type])).output, "y")
    model = CompiledModel.of(lower(graph), graph, threads=1)
    with pytest.raises(NnefError, match="a copy of input 'x': 562,949,953,421,312") as caught:
        model(np.broadcast_to(np.float32(1), (1 << 47,)))
    assert rules(caught) == ["limit/memory"]


def test_models_hide_members_for_sessions() -> None:
    names = {name for name in dir(CompiledModel) if not name.startswith("_")}
    assert names.isdisjoint({"step", "session_layout", "appended"})
    assert {"run", "save"} <= names
