"""ONNX files are models like others: they are compiled, imported, and refused with reasons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import nnefc
from nnefc import NnefError
from tests.helpers.onnx.models import ROWS, model, node, passing, save, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("external", ["", "weights.bin"])
def test_a_static_model_is_compiled(tmp_path: Path, external: str) -> None:
    compiled = nnefc.compile(save(passing(), tmp_path / "net.onnx", external=external))
    y, v = compiled(X)
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(v, ROWS)


def test_named_dimensions_are_symbols(tmp_path: Path) -> None:
    path = save(passing("batch"), tmp_path / "NET.ONNX")
    dynamic = nnefc.compile(path)
    assert isinstance(dynamic, nnefc.DynamicModel)
    for rows in (1, 2, 5):
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(dynamic(x)[0], x)
    static = nnefc.compile(path, symbols={"batch": 2})
    np.testing.assert_array_equal(static(X)[0], X)


def test_each_initializer_has_its_own_data(tmp_path: Path) -> None:
    """Wrappers of protocol buffers are made on demand: their identity may occur again."""
    names = [f"w{i}" for i in range(20)]
    made = model(
        [node("Identity", [name], [f"{name}_out"]) for name in names],
        [],
        [tensor(f"{name}_out", [100, 3]) for name in names],
        [weight(name, np.full((100, 3), i, np.float32)) for i, name in enumerate(names)],
    )
    graph = nnefc.import_model(save(made, tmp_path / "net.onnx"))
    for i, name in enumerate(names):
        data: Any = graph.variables[name].data
        np.testing.assert_array_equal(data, np.full((100, 3), i, np.float32))


def failing(path: Path, **options: Any) -> NnefError:
    with pytest.raises(NnefError) as caught:
        nnefc.import_model(path, **options)
    return caught.value


def test_unknown_operators_are_reported_together(tmp_path: Path) -> None:
    made = model(
        [node("Nope", ["x"], ["y"]), node("Nope", ["y"], ["z"]), node("Other", ["z"], ["w"])],
        [tensor("x", [2])],
        [tensor("w", [2])],
    )
    errors = failing(save(made, tmp_path / "net.onnx")).errors
    assert [each.rule for each in errors] == ["onnx/operator"] * 2
    assert "Nope of version 17, used 2 times" in errors[0].message


@pytest.mark.parametrize("dialect", ["nnef", "tract"])
def test_a_dialect_of_nnef_is_refused(tmp_path: Path, dialect: str) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    (error,) = failing(path, dialect=dialect).errors
    assert error.rule == "input/option"
    assert dialect in error.message


def test_options_of_nnef_types_mean_nothing(tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    graph = nnefc.import_model(path, scalar="float64", integer="int64", quantize=False, strict=True)
    assert str(graph) == str(nnefc.import_model(path))


@pytest.mark.parametrize(
    ("module", "expected"),
    [("onnx", "not installed"), ("onnx.helper", "cannot be imported: ModuleNotFoundError")],
)
def test_the_package_is_missing_or_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, expected: str
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, module, None)
    (error,) = failing(path).errors
    assert error.rule == "onnx/package"
    assert expected in error.message
    assert 'pip install "nnefc[onnx]"' in error.hint


def test_operators_of_other_versions_are_told(tmp_path: Path) -> None:
    made = model([node("Upsample", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
    with pytest.raises(NnefError, match="hint: it is known in versions 1 to 9"):
        nnefc.compile(save(made, tmp_path / "net.onnx"))


def sparse_model(dims: list[int], places: Any, shape: tuple[Any, ...] = (2, 3, 4)) -> Any:
    """x + w for a sparse w, whose values are 1, 2, ..."""
    made = model([node("Add", ["x", "w"], ["y"])], [tensor("x", shape)], [tensor("y", None)])
    values = weight("w", np.arange(1, len(places) + 1, dtype=np.float32))
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, weight("", np.array(places, np.int64)), dims)
    )
    return made


@pytest.mark.parametrize("places", [[1, 5, 11], [[0, 1], [1, 1], [2, 3]]])
def test_sparse_initializers(tmp_path: Path, places: Any) -> None:
    made = sparse_model([3, 4], places)
    x = np.random.default_rng(0).random((2, 3, 4), np.float32)
    (want,) = onnxruntime_results(made, [x])
    np.testing.assert_array_equal(nnefc.compile(save(made, tmp_path / "net.onnx"))(x), want)


def test_large_sparse_initializers_are_stored(tmp_path: Path) -> None:
    """With a dynamic model, whose artifact has them; both parts lie outside of the outline."""
    made = sparse_model([3, 9000], [[i % 3, i] for i in range(2000)], ("batch", 3, 9000))
    net = nnefc.compile(save(made, tmp_path / "net.onnx"))
    x = np.zeros((1, 3, 9000), np.float32)
    want = np.zeros((1, 3, 9000), np.float32)
    want[0, np.arange(2000) % 3, np.arange(2000)] = np.arange(1, 2001)
    np.testing.assert_array_equal(net(x), want)
    net.save(tmp_path / "net.nnefc")
    (tmp_path / "net.onnx").unlink()
    x, want = np.concatenate([x] * 4), np.concatenate([want] * 4)  # a plan of another batch
    np.testing.assert_array_equal(nnefc.load(tmp_path / "net.nnefc")(x), want)


def test_wrong_sparse_initializers(tmp_path: Path) -> None:
    for made, message in (
        (sparse_model([3, 4], [12]), "initializer 'w': a sparse tensor is invalid: index 12"),
        (sparse_model([1 << 50], [0]), "initializer 'w': a tensor of shape"),
        (sparse_model([3, 4], [[1, 2, 3]]), "initializer 'w': a sparse tensor is invalid"),
    ):
        with pytest.raises(NnefError, match=message):
            nnefc.compile(save(made, tmp_path / "net.onnx"))


def test_operators_of_one_processor_are_refused_with_the_way_out(tmp_path: Path) -> None:
    """onnxruntime itself writes such a file, if it optimizes as much as it can."""
    runtime: Any = pytest.importorskip("onnxruntime")
    filters = weight("w", np.ones((16, 16, 3, 3), np.float32))
    made = model(
        [node("Conv", ["x", "w"], ["y"])],
        [tensor("x", [1, 16, 8, 8])],
        [tensor("y", None)],
        [filters],
    )
    options = runtime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "all.onnx"), 3
    runtime.InferenceSession(made.SerializeToString(), options)
    error = failing(tmp_path / "all.onnx")
    assert {each.rule for each in error.errors} == {"onnx/operator"}
    assert all("ORT_ENABLE_EXTENDED" in each.hint for each in error.errors)
