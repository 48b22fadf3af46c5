"""Data of variables: from files, converted, random (5.1, 5.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.formats.tensor_file import write_tensor
from nnefc.frontends.nnef import import_text
from nnefc.frontends.read_model import read_graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from tests.helpers.nnef.text import document


def model(folder: Path, declaration: str, **tensors: Any) -> Path:
    """A model with `declaration` of the variable v, and tensor files."""
    (folder / "graph.nnef").write_text(document(f"v = {declaration};\ny = copy(v);"))
    for label, array in tensors.items():
        write_tensor(folder / f"{label}.dat", array)
    return folder


@pytest.mark.parametrize(
    ("dtype", "stored", "expected"),
    [
        ("scalar", np.array([1.5, -2], np.float16), np.array([1.5, -2], np.float32)),
        ("scalar", np.array([1.5, -2], np.float32), np.array([1.5, -2], np.float32)),
        ("scalar", np.array([0.1, -2], np.float64), np.array([0.1, -2], np.float32)),
        ("integer", np.array([3, -4], np.int8), np.array([3, -4], np.int32)),
        ("integer", np.array([3, 7], np.uint64), np.array([3, 7], np.int32)),
        ("logical", np.array([1, 0], np.uint8), np.array([True, False])),
        ("logical", np.array([True, False]), np.array([True, False])),
    ],
)
def test_stored_items_become_those_of_the_tensor(
    tmp_path: Path, dtype: str, stored: Any, expected: Any
) -> None:
    graph = read_graph(model(tmp_path, f"variable<{dtype}>(shape = [2], label = 'v')", v=stored))
    data = graph.variables["v"].data
    assert data is not None
    assert data.dtype == expected.dtype
    assert not data.flags.writeable
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize(
    ("dtype", "stored", "rule", "named"),
    [
        ("scalar", np.zeros((3,), np.float32), "data/shape", "[3]"),
        ("scalar", np.zeros((2, 1), np.float32), "data/shape", "[2,1]"),
        ("scalar", np.zeros((2,), np.int32), "data/type", "integer"),
        ("scalar", np.array([1e300, 0]), "data/type", "1e+300"),
        ("integer", np.zeros((2,), np.float32), "data/type", "real"),
        ("integer", np.array([2**40, 0]), "data/type", str(2**40)),
        ("logical", np.array([2, 0], np.uint8), "data/type", "2"),
        ("logical", np.zeros((2,), np.float32), "data/type", "real"),
    ],
)
def test_values_that_do_not_fit_are_errors(
    tmp_path: Path, dtype: str, stored: Any, rule: str, named: str
) -> None:
    path = model(tmp_path, f"variable<{dtype}>(shape = [2], label = 'v')", v=stored)
    with pytest.raises(NnefError) as caught:
        read_graph(path)
    (error,) = caught.value.errors
    assert error.rule == rule
    assert named in error.message
    assert error.hint or rule != "data/shape"
    assert error.file is not None and error.file.endswith("v.dat")
    # without the data the document is fine
    read_graph(path, ImportConfig(load_data=False))


def test_wide_types_keep_wide_data(tmp_path: Path) -> None:
    stored = np.array([0.1, 2**40 + 0.5])
    path = model(tmp_path, "variable(shape = [2], label = 'v')", v=stored)
    data = read_graph(path, ImportConfig(scalar="float64")).variables["v"].data
    np.testing.assert_array_equal(data, stored)


def test_matching_data_is_not_copied(tmp_path: Path) -> None:
    path = model(tmp_path, "variable(shape = [2], label = 'v')", v=np.zeros(2, np.float32))
    data = read_graph(path).variables["v"].data
    assert data is not None and not data.flags.owndata


THREE = """a = variable(shape = [2,3], label = 'a/w');
b = variable(shape = [1,3], label = 'b');
c = variable<integer>(shape = [2], label = 'c');
y = a + b;"""


def test_missing_data_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(document(THREE))
    write_tensor(tmp_path / "b.dat", np.ones((1, 3), np.float32))
    with pytest.raises(NnefError) as caught:
        read_graph(tmp_path)
    (error,) = caught.value.errors
    assert error.rule == "data/missing"
    assert "'a/w', 'c'" in error.message
    assert "--random-weights" in error.hint
    graph = read_graph(tmp_path, ImportConfig(random_weights=1))
    assert all(v.data is not None for v in graph.variables.values())
    np.testing.assert_array_equal(graph.variables["b"].data, np.ones((1, 3)))


def test_data_of_only_some_variables_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(document(THREE))
    graph = read_graph(tmp_path, ImportConfig(require_data=False))
    assert all(v.data is None for v in graph.variables.values())
    write_tensor(tmp_path / "b.dat", np.ones((1, 3), np.float32))
    with pytest.raises(NnefError) as caught:
        read_graph(tmp_path, ImportConfig(require_data=False))
    (error,) = caught.value.errors
    assert error.rule == "data/missing"
    assert "'a/w', 'c'" in error.message
    assert "--random-weights" not in error.hint


def test_random_weights_depend_on_seed_and_label() -> None:
    def weights(seed: int, label: str = "a/w") -> Any:
        text = document(THREE.replace("a/w", label))
        return (
            import_text(text, config=ImportConfig(random_weights=seed))
            .variables[label.lower()]
            .data
        )

    np.testing.assert_array_equal(weights(1), weights(1))
    np.testing.assert_array_equal(weights(1), weights(1, "A/W"))
    assert not np.array_equal(weights(1), weights(2))
    assert not np.array_equal(weights(1), weights(1, "other"))


def test_random_weights_are_scaled_and_variances_positive() -> None:
    text = document(
        "x = external(shape = [1,64,8,8]);\n"
        "w = variable(shape = [64,64,3,3], label = 'w');\n"
        "v = variable(shape = [1,64], label = 'v');\n"
        "l = variable<logical>(shape = [1], label = 'l');\n"
        "c = conv(x, w);\n"
        "y = batch_normalization(c, 0.0, v, 0.0, 1.0, epsilon = 0.0);"
    )
    variables = import_text(text, config=ImportConfig(random_weights=7)).variables
    w, v = variables["w"].data, variables["v"].data
    assert w is not None and v is not None
    assert w.dtype == v.dtype == np.float32
    assert abs(w.std() / np.sqrt(2 / (64 * 9)) - 1) < 0.05
    assert v.min() >= 0.5
    assert variables["l"].data is not None and variables["l"].data.dtype == bool


@pytest.mark.parametrize("offset", [-1, 120])
def test_warnings_of_tensor_files_are_diagnostics(tmp_path: Path, offset: int) -> None:
    path = model(tmp_path, "variable<logical>(shape = [2], label = 'v')", v=np.ones(2, bool))
    content = bytearray((path / "v.dat").read_bytes())
    content[offset] |= 1
    (path / "v.dat").write_bytes(content)
    diagnostics = Diagnostics()
    read_graph(path, diagnostics=diagnostics)
    (warning,) = diagnostics.warnings
    with pytest.raises(NnefError) as caught:
        read_graph(path, ImportConfig(strict=True))
    assert [error.rule for error in caught.value.errors] == [warning.rule]


def test_a_byte_order_mark_is_reported(tmp_path: Path) -> None:
    text = document("y = relu(x);")
    (tmp_path / "graph.nnef").write_text(f"\ufeff{text}", encoding="utf-8")
    diagnostics = Diagnostics()
    read_graph(tmp_path, diagnostics=diagnostics)
    assert [warning.rule for warning in diagnostics.warnings] == ["syntax/encoding"]


def test_labels_that_differ_in_case_have_one_file(tmp_path: Path) -> None:
    body = "v = variable(shape = [2], label = 'W');\nw = variable(shape = [2], label = 'w');\n"
    (tmp_path / "graph.nnef").write_text(document(body + "y = v - w;"))
    write_tensor(tmp_path / "w.dat", np.array([1.5, 2], np.float32))
    graph = read_graph(tmp_path)
    assert list(graph.variables) == ["w"]
    write_tensor(tmp_path / "W.dat", np.array([3, 4], np.float32))
    with pytest.raises(NnefError) as caught:
        read_graph(tmp_path)
    (error,) = caught.value.errors
    assert error.rule == "container/ambiguous"
    assert "'W' and 'w'" in error.message
