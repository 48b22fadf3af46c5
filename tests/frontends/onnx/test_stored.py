"""ONNX models in artifacts, pickles and copies; models whose data is elsewhere."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import nnefc
from nnefc import NnefError
from nnefc.frontends.common.graph_source import GraphSource
from nnefc.frontends.read_model import read_model, source_of
from nnefc.options.import_config import ImportConfig
from tests.helpers.onnx.models import ROWS, model, node, passing, save, tensor, weight


def source(path: Path, **options: Any) -> GraphSource:
    found: Any = read_model(path, ImportConfig(**options), sources=True)
    return found


def odd_types() -> Any:
    """Weights of types that are stored in other ways: float8, complex numbers, booleans."""
    float8 = helper.make_tensor(
        "f8", TensorProto.FLOAT8E4M3FN, [2000], bytes(range(100)) * 20, True
    )
    rng = np.random.default_rng(1)
    weights = {
        "c": (rng.standard_normal((20, 30)) + 1j).astype(np.complex64),
        "b": rng.integers(0, 2, (50, 50)).astype(bool),
        "h": rng.standard_normal((50, 50)).astype(np.float16),
        "w": ROWS,
    }
    return model(
        [node("Identity", [name], [f"{name}_out"]) for name in ("b", "h", "w")],
        [],
        [tensor(f"{n}_out", None, t) for n, t in (("b", 9), ("h", 10), ("w", 1))],
        [float8, *(weight(name, array) for name, array in weights.items())],
    )


@pytest.mark.parametrize("external", ["", "w.bin"])
@pytest.mark.parametrize("made", [passing("batch"), odd_types()], ids=["floats", "types"])
def test_files_are_the_same_model(tmp_path: Path, made: Any, external: str) -> None:
    first = source(save(made, tmp_path / "net.onnx", external=external))
    files = first.files()
    assert sum(map(len, files.texts.values())) < 2500
    (tmp_path / "net.onnx").unlink()
    again = source_of(files)
    shapes = dict.fromkeys(first.inputs, (2, 3))
    one, other = first.graph(shapes), again.graph(shapes)
    assert str(one) == str(other)
    for name, variable in one.variables.items():
        data: Any = other.variables[name].data
        np.testing.assert_array_equal(variable.data, data)
    assert files.tensors.keys() == again.files().tensors.keys()


@pytest.fixture
def dynamic(tmp_path: Path) -> nnefc.DynamicModel:
    compiled = nnefc.compile(save(passing("batch"), tmp_path / "net.onnx", external="w.bin"))
    assert isinstance(compiled, nnefc.DynamicModel)
    return compiled


def check(again: Any) -> None:
    for rows in (2, 7):
        x = np.full((rows, 3), rows, np.float32)
        y, v = again(x)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(v, ROWS)


def test_symbolic_models_become_artifacts(tmp_path: Path, dynamic: nnefc.DynamicModel) -> None:
    dynamic.save(tmp_path / "net.nnefc", shapes=[{"x": (2, 3)}])
    (tmp_path / "net.onnx").unlink()
    (tmp_path / "w.bin").unlink()
    check(nnefc.load(tmp_path / "net.nnefc"))


def test_symbolic_models_are_pickled_and_copied(dynamic: nnefc.DynamicModel) -> None:
    check(dynamic)
    check(pickle.loads(pickle.dumps(dynamic)))
    check(copy.deepcopy(dynamic))


def test_weights_without_a_file(tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx", external="w.bin")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(NnefError, match="initializer 'w': no such file"):
        nnefc.import_model(path)
    outline = nnefc.import_model(path, load_data=False)
    assert outline.variables["w"].data is None
    random: Any = nnefc.import_model(path, random_weights=1).variables["w"].data
    again: Any = nnefc.import_model(path, random_weights=1).variables["w"].data
    np.testing.assert_array_equal(random, again)
    assert 0.1 < random.std() < 10
