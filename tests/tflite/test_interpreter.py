"""`nnefc.tflite.Interpreter` has the methods of LiteRT's, and its results."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import nnefc.tflite
from nnefc import NnefError
from nnefc.tflite import Interpreter
from nnefc.tflite.compile_subgraph import ModelContent
from tests.frontends.tflite.test_sparse import densify
from tests.frontends.tflite.test_sparse import sparse as stored
from tests.helpers.tflite.one_operator import content_of
from tests.helpers.tflite.small_models import (
    W,
    dense,
    in_blocks,
    quantized,
    random,
    recurrent,
)
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write


def litert(content: bytes) -> Any:
    return pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=content)


def pair_of(content: bytes) -> tuple[Any, Any]:
    """An interpreter of LiteRT, and one of nnefc."""
    theirs, ours = litert(content), Interpreter(model_content=content)
    for each in (theirs, ours):
        each.allocate_tensors()
    return theirs, ours


def noted(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    """The function, which adds its name to a list when it is called."""

    def call(*given: Any) -> Any:
        calls.append(function.__name__)
        return function(*given)

    return call


def same(ours: Any, theirs: Any) -> None:
    """Check that details, lists of them, or dictionaries of them are equal."""
    kind = cast(type[Any], type(theirs))
    assert type(ours) is kind
    if kind is dict:
        assert list(ours) == list(theirs)
        for name in theirs:
            same(ours[name], theirs[name])
    elif kind is list:
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif kind is np.ndarray:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


def same_details(ours: Any, theirs: Any) -> None:
    same(ours.get_input_details(), theirs.get_input_details())
    same(ours.get_output_details(), theirs.get_output_details())


def outputs_of(interpreter: Any, *inputs: Any) -> list[Any]:
    for detail, x in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def close(ours: list[Any], theirs: list[Any]) -> None:
    for y, expected in zip(ours, theirs, strict=True):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def sparse() -> bytes:
    """Weights of which blocks of four are stored."""
    weights = np.array([[1, 2, 3, 4, 0, 0, 0, 0], [0, 0, 0, 0, 5, 6, 7, 8]], np.float32)
    return content_of(densify(stored(weights, (0, 1, 2), {1}, {1: 4})))


@pytest.mark.parametrize("make", [dense, quantized, recurrent, sparse, in_blocks])
def test_details_are_those_of_litert(make: Callable[[], bytes]) -> None:
    theirs, ours = litert(make()), Interpreter(model_content=make())
    same_details(ours, theirs)
    same(ours.get_tensor_details(), theirs.get_tensor_details())
    same(ours.get_signature_list(), theirs.get_signature_list())
    assert ours.num_subgraphs() == theirs.num_subgraphs()


@pytest.mark.parametrize("name", ["BOOL", "STRING", "INT4", "UINT4", "RESOURCE"])
def test_item_types_are_those_of_litert(name: str) -> None:
    tensors = [
        tensor((2,), "FLOAT32", "x"),
        tensor((2,), "FLOAT32", "y"),
        tensor((2,), name, "z"),
        # a zero point that int32 does not hold
        tensor((2,), "INT8", "far", quantization={"scale": (0.5,), "zero_point": (2**40 + 5,)}),
    ]
    graph = subgraph(tensors, [operator(0, (0,), (1,), "NegOptions")], (0,), (1,))
    content = write(model([operator_code("NEG")], [graph]))
    ours = Interpreter(model_content=content).get_tensor_details()
    same(ours, litert(content).get_tensor_details())


def test_results_are_those_of_litert() -> None:
    theirs, ours = pair_of(dense())
    x = random(1, 6)
    close(outputs_of(ours, x), outputs_of(theirs, x))
    same(ours.get_tensor(0), theirs.get_tensor(0))
    same(ours.get_tensor(1), theirs.get_tensor(1))


def test_codes_are_those_of_litert() -> None:
    theirs, ours = pair_of(quantized())
    x = np.random.default_rng(3).integers(-128, 128, (2, 6)).astype(np.int8)
    (y,), (expected,) = outputs_of(ours, x), outputs_of(theirs, x)
    assert len(set(expected.reshape(-1).tolist())) > 2
    same(y, expected)


@pytest.mark.parametrize("signature", [-1, 1])
def test_inputs_are_resized_as_litert_does(signature: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only first shapes are compiled: all further ones are plans of one model with symbols."""
    calls: list[str] = []
    for name in ("compiled", "symbolic"):
        monkeypatch.setattr(ModelContent, name, noted(getattr(ModelContent, name), calls))
    theirs, ours = pair_of(dense(batch=signature))
    for batch in (3, 5, 3, 9, 4, 1, 7):
        for each in (theirs, ours):
            each.resize_tensor_input(0, [batch, 6], strict=signature == -1)
        same(ours.get_input_details(), theirs.get_input_details())
        for each in (theirs, ours):
            each.allocate_tensors()
        same_details(ours, theirs)
        x = random(batch, 6, seed=batch)
        close(outputs_of(ours, x), outputs_of(theirs, x))
    assert calls == ["compiled", *["compiled"] * (signature == 1), "symbolic"]


def test_states_are_kept_and_reset_as_in_litert() -> None:
    theirs, ours = pair_of(recurrent())
    first = random(2, 3)
    for seed in range(4):
        x = random(2, 3, seed=seed)
        close(outputs_of(ours, x), outputs_of(theirs, x))
    before = outputs_of(ours, first)
    ours.allocate_tensors()  # nothing is to be allocated
    outputs_of(theirs, first)
    theirs.allocate_tensors()
    close(outputs_of(ours, first), outputs_of(theirs, first))
    for each in (theirs, ours):
        each.reset_all_variables()
    after = outputs_of(ours, first)
    close(after, outputs_of(theirs, first))
    assert np.abs(after[0] - before[0]).max() > 0.01


def test_new_shapes_reset_states_as_in_litert() -> None:
    constants = [random(8, 3), random(8, 5)]
    tensors = [
        tensor((2, 3), "FLOAT32", "x"),
        tensor((8, 3), "FLOAT32", "features", buffer=1),
        tensor((8, 5), "FLOAT32", "times", buffer=2),
        tensor((2, 40), "FLOAT32", "state", is_variable=True),
        tensor((2, 4), "FLOAT32", "y"),
        tensor((1,), "FLOAT32", "a", shape_signature=(-1,)),
        tensor((1,), "FLOAT32", "b"),
    ]
    options = {"rank": 2, "fused_activation_function": 1}
    layer = operator(0, (0, 1, 2, -1, 3), (4,), "SVDFOptions", **options)
    other = operator(1, (5,), (6,), "NegOptions")
    graph = subgraph(tensors, [layer, other], (0, 5), (4, 6))
    codes = [operator_code("SVDF"), operator_code("NEG")]
    theirs, ours = pair_of(write(model(codes, [graph], [each.tobytes() for each in constants])))
    x, results = random(2, 3), list[Any]()
    for length in (1, 1, 2, 2, 1, 1):
        for each in (theirs, ours):
            each.resize_tensor_input(5, [length])
            each.allocate_tensors()
        a = random(length)
        results.append(outputs_of(ours, x, a))
        close(results[-1], outputs_of(theirs, x, a))
    assert np.abs(results[1][0] - results[0][0]).max() > 0.01


def test_signatures_are_those_of_litert() -> None:
    theirs, ours = pair_of(dense())
    given = [("negate", {"v": random(length)}) for length in (3, 4, 7, 2)]
    for key, x in (("serve", {"image": random(2, 6)}), *given):
        a, b = ours.get_signature_runner(key), theirs.get_signature_runner(key)
        same(a.get_input_details(), b.get_input_details())
        result, expected = a(**x), b(**x)
        assert list(result) == list(expected)
        close(list(result.values()), list(expected.values()))
        same(a.get_output_details(), b.get_output_details())
    same_details(ours, theirs)


WRONG: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda it: it.set_tensor(0, np.zeros((1, 6))),
    "list": lambda it: it.set_tensor(0, [[1, 2, 3, 4, 5, 6]]),
    "rank": lambda it: it.set_tensor(0, np.zeros(6, np.float32)),
    "shape": lambda it: it.set_tensor(0, np.zeros((2, 6), np.float32)),
    "set index": lambda it: it.set_tensor(99, np.zeros((1, 6), np.float32)),
    "get index": lambda it: it.get_tensor(-1),
    "intermediate": lambda it: it.get_tensor(2),
    "strict": lambda it: it.resize_tensor_input(0, [1, 7], strict=True),
    "strict rank": lambda it: it.resize_tensor_input(0, [6], strict=True),
    "resize index": lambda it: it.resize_tensor_input(99, [1, 6]),
    "scalar shape": lambda it: it.resize_tensor_input(0, 6),
    "signature": lambda it: it.get_signature_runner("none"),
    "several signatures": lambda it: it.get_signature_runner(),
    "missing": lambda it: it.get_signature_runner("serve")(),
    "name": lambda it: it.get_signature_runner("serve")(x=np.zeros((1, 6), np.float32)),
    "named dtype": lambda it: it.get_signature_runner("serve")(image=np.zeros((1, 6))),
    "subgraph": lambda it: it.get_tensor_details(2),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_where_litert_has_them(name: str) -> None:
    theirs, ours = pair_of(dense())
    with pytest.raises((ValueError, RuntimeError)):
        WRONG[name](theirs)
    with pytest.raises(NnefError):
        WRONG[name](ours)


EARLY: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda it: it.invoke(),
    "get": lambda it: it.get_tensor(0),
    "view": lambda it: it.tensor(3)(),
    "set": lambda it: it.set_tensor(0, np.zeros((1, 6), np.float32)),
}


@pytest.mark.parametrize("name", EARLY)
def test_tensors_must_be_allocated(name: str) -> None:
    content = dense()
    resized = Interpreter(model_content=content)
    resized.allocate_tensors()
    resized.resize_tensor_input(0, [2, 6])
    for ours in (Interpreter(model_content=content), resized):
        with pytest.raises(NnefError, match="allocate_tensors"):
            EARLY[name](ours)


def test_intermediate_tensors_are_not_kept() -> None:
    ours = Interpreter(model_content=dense())
    ours.allocate_tensors()
    with pytest.raises(NnefError, match="intermediate tensors are not kept"):
        ours.get_tensor(2)
    with pytest.raises(NnefError, match="no input; the inputs are 0"):
        ours.set_tensor(3, np.zeros((1, 4), np.float32))


def test_models_and_options_are_checked(tmp_path: Path) -> None:
    content = dense()
    models: list[tuple[Any, ...]] = [
        (),
        ("", b""),
        ("net.tflite", content),
        (tmp_path / "none.tflite",),
        (None, b"xx"),
    ]
    for given in models:
        with pytest.raises(NnefError):
            Interpreter(*given)
    options: list[dict[str, Any]] = [
        {"num_threads": 0},
        {"num_threads": "2"},
        {"experimental_delegates": [object()]},
        {"experimental_preserve_all_tensors": True},
        {"unknown": None},
    ]
    for each in options:
        with pytest.raises(NnefError):
            Interpreter(model_content=content, **each)
    Interpreter(None, content, [], 1, experimental_op_resolver_type=2)
    with pytest.raises(AttributeError, match="compiles the whole model"):
        _ = nnefc.tflite.load_delegate


@pytest.mark.usefixtures("store")
def test_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tflite.md").read_text()
    (snippet,) = re.findall(r"## From LiteRT\n.*?```python\n(.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(dense())
    scope: dict[str, Any] = {}
    exec(compile(snippet, "tflite.md", "exec"), scope)
    expected = W.astype(np.float64).sum(1)[None]
    np.testing.assert_allclose(scope["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("store")
def test_views_files_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(dense())
    ours = Interpreter(path, num_threads=1)
    ours.resize_tensor_input(0, [2, 6])
    ours.allocate_tensors()
    x, y = ours.tensor(0), ours.tensor(3)
    for value in (1, -2):
        x().fill(value)
        ours.invoke()
        expected = np.tile(abs(value) * W.astype(np.float64).sum(1), (2, 1))
        np.testing.assert_allclose(y(), expected, rtol=1e-5, atol=1e-5)
    kept = ours.get_tensor(3)
    x().fill(0)
    ours.invoke()
    assert kept.any() and not y().any()


def test_it_is_imported_at_its_first_use() -> None:
    code = "import sys, nnefc; sys.exit('nnefc.tflite' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
