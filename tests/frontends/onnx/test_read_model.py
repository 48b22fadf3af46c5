"""ONNX files are models like others: they are compiled, imported, and refused with reasons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.onnx.models import ROWS, model, node, passing, save, tensor, weight

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
