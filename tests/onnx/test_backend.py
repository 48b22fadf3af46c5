"""`nnefc.onnx.backend` implements the interface of `onnx.backend.base`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import nnefc.onnx.backend as backend
from nnefc import NnefError
from tests.helpers.onnx.models import ROWS, model, node, passing, save, tensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_it_is_a_backend() -> None:
    assert issubclass(backend.NnefcBackend, Backend)
    prepared = backend.prepare(passing("batch"))
    assert isinstance(prepared, BackendRep)
    for inputs in (X, [X], {"x": X}):
        results: Any = prepared.run(inputs)
        np.testing.assert_array_equal(results[0], X)
        np.testing.assert_array_equal(results["y"], X)
    np.testing.assert_array_equal(backend.run_model(passing(), [X])[0], X)


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA:1")
    with pytest.raises(NnefError, match="device 'CUDA' is not available"):
        backend.prepare(passing(), "CUDA")


def test_compatible_models() -> None:
    assert backend.is_compatible(passing("batch"))
    assert not backend.is_compatible(passing(), "CUDA")
    unknown = model([node("Nope", ["x"], ["y"])], [tensor("x", [1])], [tensor("y", [1])])
    assert not backend.is_compatible(unknown)
    sequence = helper.make_tensor_sequence_value_info("x", 1, [2])
    joined = model(
        [node("SequenceAt", ["x", "i"], ["y"])], [sequence, tensor("i", [], 7)], [tensor("y", [2])]
    )
    assert backend.is_compatible(joined)


def test_shapes_may_be_inputs() -> None:
    """A model that needs a value of an input is compiled for the integers of each call."""
    made = model(
        [node("Reshape", ["x", "to"], ["y"])],
        [tensor("x", [2, 3]), tensor("to", [2], 7)],
        [tensor("y", None)],
    )
    assert backend.is_compatible(made)
    prepared = backend.prepare(made)
    for shape in ((3, 2), (6, 1), (3, 2)):
        (y,) = prepared.run([X, np.array(shape)])
        np.testing.assert_array_equal(y, X.reshape(shape))


def test_numbers_may_be_inputs() -> None:
    """A number of turns, and reals that an operator must know."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["a", "a"], ["b"])],
        "body",
        [tensor("i", [], 7), tensor("go", [], 9), tensor("a", [2])],
        [tensor("on", [], 9), tensor("b", [2])],
    )
    made = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [tensor("n", [], 7), tensor("x", [2])],
        [tensor("y", [2])],
    )
    x = np.array([1, 3], np.float32)
    for turns in (0, 3, 5):
        (y,) = backend.run_model(made, [np.int64(turns), x])
        np.testing.assert_array_equal(y, x * 2**turns)
    depth, values = np.float32(4), np.array([0, 5], np.float32)
    (y,) = backend.run_node(
        node("OneHot", ["i", "depth", "values"], ["y"]), [np.array([2, 0]), depth, values]
    )
    np.testing.assert_array_equal(y, np.eye(4, dtype=np.float32)[[2, 0]] * 5)


def test_models_in_files(tmp_path: Path) -> None:
    """With external data, too."""
    path = save(passing("batch"), tmp_path / "net.onnx", external="w.bin")
    for model_ in (str(path), path, save(passing(), tmp_path / "in.onnx").read_bytes()):
        assert backend.is_compatible(model_)
        y, v = backend.run_model(model_, [X])
        np.testing.assert_array_equal(y, X)
        np.testing.assert_array_equal(v, ROWS)
    assert not backend.is_compatible(tmp_path / "none.onnx")
    with pytest.raises(NnefError, match=r"none\.onnx: error: cannot read: "):
        backend.prepare(str(tmp_path / "none.onnx"))
    wrong: Any = 3
    with pytest.raises(NnefError, match="expected a ModelProto, a path or bytes"):
        backend.prepare(wrong)


def test_nodes() -> None:
    (y,) = backend.run_node(node("MatMul", ["a", "b"], ["y"]), [X, X.T])
    np.testing.assert_allclose(y, X @ X.T)
    (y,) = backend.run_node(node("Transpose", ["a"], ["y"], perm=[1, 0]), [X], opset_version=13)
    np.testing.assert_array_equal(y, X.T)
    with pytest.raises(NnefError, match="1 arrays for 2 inputs"):
        backend.run_node(node("MatMul", ["a", "b"], ["y"]), [X])


def test_arguments_of_other_types_are_refused() -> None:
    made = model([node("Relu", ["x"], ["y"])], [tensor("x", [])], [tensor("y", [])])
    rep = backend.prepare(made)
    assert rep.run(np.float32(-2))[0] == 0
    cases: list[tuple[Any, str]] = [
        (None, "the inputs are a NoneType, expected a sequence of arrays, or arrays by name"),
        (1.5, "the inputs are a float"),
        ("x", "the inputs are a str"),
        ([], "0 arrays for 1 inputs: x"),
    ]
    for given, message in cases:
        with pytest.raises(NnefError, match=message):
            rep.run(given)
    product = node("MatMul", ["a", "b"], ["y"])
    (y,) = backend.run_node(product, {"b": X.T, "a": X})
    np.testing.assert_allclose(y, X @ X.T, rtol=1e-5)
    with pytest.raises(NnefError, match="there is no array for b"):
        backend.run_node(product, {"a": X})
