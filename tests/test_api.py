"""The Python face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc

TEXT = """\
version 1.0;
graph g( x ) -> ( y )
{
    x = external(shape = [2]);
    w = variable(shape = [2], label = 'w');
    y = mul(x, w);
}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(TEXT)
    return path


def test_compile_takes_what_import_takes(document: Path) -> None:
    options = nnefc.ImportOptions(shapes={"x": (1,)}, scalar="float64", random_weights=1)
    model = nnefc.compile(document, threads=1, **options)
    assert str(model.inputs[0]) == "x: float64[1]"
    graph = nnefc.import_model(document, **options)
    x = np.array([3.0])
    np.testing.assert_array_equal(nnefc.compile(graph, threads=1)(x), model(x))
    with pytest.raises(TypeError, match="shapse"):
        nnefc.compile(document, shapse={})  # type: ignore[call-arg]


def test_how_to_import_does_not_apply_to_a_graph(document: Path) -> None:
    graph = nnefc.import_model(document, random_weights=1)
    with pytest.raises(nnefc.NnefError, match="scalar, shapes, strict cannot apply") as caught:
        nnefc.compile(graph, scalar="float32", shapes={"x": (3,)}, strict=True)
    assert caught.value.errors[0].rule == "input/option"


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1)])
def test_data_of_another_shape_than_its_variable(document: Path, shape: tuple[int, ...]) -> None:
    graph = nnefc.import_model(document, random_weights=1)
    graph.variables["w"].data = np.ones(shape, np.float32)
    with pytest.raises(nnefc.NnefError, match="'w'") as caught:
        nnefc.compile(graph)
    assert caught.value.errors[0].rule == "data/shape"
    graph.variables["w"].data = np.ones(2)
    with pytest.raises(nnefc.NnefError, match="float64, not float32"):
        nnefc.compile(graph)
