"""Labels of tract documents are case-sensitive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats.tensor_file import write_tensor

Array = np.ndarray[Any, Any]
HEAD = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol B;
"""
NET = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [B, 3], datum_type = 'f32');
    v = variable(label = 'w', shape = [3, 3]);
    w = variable(label = 'W', shape = [3, 3]);
    again = variable(label = 'w', shape = [3, 3]);
    other = variable(label = 'W_2', shape = [3, 3]);
    y = matmul(x, v) + 10.0 * matmul(x, w) + 100.0 * matmul(x, again) + matmul(x, other) / 10.0;
}
"""
OUTER = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [B, 3], datum_type = 'f32');
    y = tract_core_submodel(x, label = 'part') - tract_core_submodel(x, label = 'PART');
}
"""
INNER = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol B;
graph inner( x ) -> ( y )
{
    x = tract_core_external(shape = [B, 3], datum_type = 'f32');
    w = variable(label = 'w', shape = [3, 3]);
    y = matmul(x, w);
}
"""


def weight(seed: int) -> Array:
    return np.random.default_rng(seed).integers(-8, 8, (3, 3)).astype(np.float32)


@pytest.fixture
def x() -> Array:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_labels_that_differ_in_case(tmp_path: Path, x: Array) -> None:
    (tmp_path / "graph.nnef").write_text(HEAD + NET)
    small, large, other = weight(1), weight(2), weight(3)
    for name, array in (("w", small), ("W", large), ("W_2", other)):
        write_tensor(tmp_path / f"{name}.dat", array)
    expected = x @ small * 101 + x @ large * 10 + x @ other / 10
    model = nnefc.compile(tmp_path)
    np.testing.assert_allclose(model(x), expected, rtol=1e-6)
    np.testing.assert_allclose(model(x[:1]), expected[:1], rtol=1e-6)


def test_submodels_whose_names_differ_in_case(tmp_path: Path, x: Array) -> None:
    (tmp_path / "graph.nnef").write_text(HEAD + OUTER)
    for name, seed in (("part", 1), ("PART", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.nnef").write_text(INNER)
        write_tensor(tmp_path / name / "w.dat", weight(seed))
    np.testing.assert_array_equal(nnefc.compile(tmp_path)(x), x @ weight(1) - x @ weight(2))
