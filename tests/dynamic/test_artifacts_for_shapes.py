"""`for_shapes` of loaded models with symbols: static models, without a compiler."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.dynamic.test_artifacts import loaded
from tests.dynamic.test_plans import PRODUCTS, W, compare
from tests.dynamic.test_plans import products as attention
from tests.helpers.graphs.dynamic_models import items, rows, symbolic_model

LOOKUP = """graph net(x) -> (y) {
  x = tract_core_external(shape = [S], datum_type = 'i64');
  table = variable<scalar>(label = 'w', shape = [3, 2]);
  y = tract_core_gather(table, x, axis = 0);
}"""


def test_for_shapes_of_a_loaded_model_needs_no_compiler(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    compiled.save(path, shapes={"B": 1, "S": 20})
    found, x = loaded(path), items(1, 23, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        static = found.for_shapes({"x": (1, 23, 6)})
    compare(static(x), attention(x))
    assert static.profile(x, seconds=0.01)
    static.save(tmp_path / "static.nnefc")
    again = nnefc.load(tmp_path / "static.nnefc")
    compare(again(x), attention(x))


def test_launches_of_a_loaded_model_are_those_of_its_shapes(tmp_path: Path) -> None:
    """An artifact has the plans of the shapes it was saved for, and the work of others differs."""
    path = tmp_path / "net.nnefc"
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    compiled.save(path, shapes={"B": 1, "S": 20})
    for length in (20, 90):
        shapes = {"x": (1, length, 6)}
        launches = (net.for_shapes(shapes).launches for net in (loaded(path), compiled))
        found, expected = (sum(each.work.flops for each in plan) for plan in launches)
        assert found == pytest.approx(expected, rel=0.1)  # a concrete plan has other tiles


def test_the_error_of_an_index_lowers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, LOOKUP, w=rows(3)[:, :2]).save(path, shapes={"S": 20})
    monkeypatch.setattr("nnefc.dynamic.planner.launches_at", None)  # before it is imported
    static = loaded(path).for_shapes({"x": (23,)})
    x = np.zeros(23, np.int64)
    x[4] = 3
    with pytest.raises(NnefError, match=r"index 3 at \[4\] of 'x'"):
        static(x)
