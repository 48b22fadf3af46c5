"""The files that graphs have read are the same document in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import write_tensor
from nnefc.formats.source_files import container_of
from nnefc.frontends.common.graph_source import GraphSource
from nnefc.frontends.read_model import read_model, source_of
from nnefc.ir import Graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
SYMBOL = "extension tract_symbol S;\n"
INPUT = "x = tract_core_external(shape = [S, 4], datum_type = 'f32');"
WEIGHT = "w = variable<scalar>(label = 'Part/w', shape = [4, 4]);"
SUBMODEL = "y = tract_core_submodel(x, label = 'inner');"
INNER = """graph inner(a) -> (b) {
  a = tract_core_external(shape = [S, 4], datum_type = 'f32');
  w = variable<scalar>(label = 'w', shape = [4, 4]);
  b = matmul(a, w);
}"""


def source(folder: Path, body: str, head: str = HEAD + SYMBOL, **options: Any) -> GraphSource:
    (folder / "graph.nnef").write_text(f"{head}graph g(x) -> (y) {{\n{body}\n}}\n")
    found = read_model(folder, ImportConfig(**options))
    assert not isinstance(found, Graph)
    return found


def same(first: GraphSource, shapes: dict[str, tuple[int, ...]]) -> GraphSource:
    """Another source of the files of a source, whose graph is the same."""
    graph = first.graph(shapes)
    other = source_of(first.files())
    again = other.graph(shapes)
    assert str(graph) == str(again)
    for key, variable in graph.variables.items():
        data, copy = variable.data, again.variables[key].data
        assert data is not None
        assert copy is not None
        np.testing.assert_array_equal(data, copy)
    assert (other.inputs, other.outputs, other.free) == (first.inputs, first.outputs, first.free)
    return other


def weight(path: Path, seed: int) -> None:
    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    write_tensor(path, rng.standard_normal((4, 4)).astype(np.float32))


def test_weights_and_unrelated_files(tmp_path: Path) -> None:
    weight(tmp_path / "part" / "W.dat", 1)
    weight(tmp_path / "other.dat", 2)
    (tmp_path / "notes.json").write_text("{}")
    first = source(tmp_path, f"{INPUT}\n{WEIGHT}\ny = matmul(x, w);")
    same(first, {"x": (3, 4)})
    files = first.files()
    assert [*files.texts, *files.tensors] == ["graph.nnef", "Part/w.dat"]


def test_submodels(tmp_path: Path) -> None:
    weight(tmp_path / "inner" / "w.dat", 1)
    (tmp_path / "inner" / "graph.nnef").write_text(HEAD + SYMBOL + INNER)
    first = source(tmp_path, f"{INPUT}\n{SUBMODEL}")
    other = same(first, {"x": (3, 4)})
    assert sorted(first.files().texts) == ["graph.nnef", "inner/graph.nnef"]
    assert list(first.files().tensors) == ["inner/w.dat"]
    same(other, {"x": (5, 4)})


def test_tensors_of_submodels_are_read_once(tmp_path: Path) -> None:
    weight(tmp_path / "inner" / "w.dat", 1)
    (tmp_path / "inner" / "graph.nnef").write_text(HEAD + SYMBOL + INNER)
    first = source(tmp_path, f"{INPUT}\n{SUBMODEL}")
    graphs = [first.graph({"x": (n, 4)}) for n in (3, 5)]
    one, other = (next(iter(graph.variables.values())).data for graph in graphs)
    assert one is not None
    assert other is not None
    assert np.may_share_memory(one, other)


def test_quantization_and_templates(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"factor": 2}))
    (tmp_path / "graph.quant").write_text(
        '"y": zero_point_linear_quantize(zero_point = 0, scale = 0.5, bits = 8, signed = true);\n'
    )
    first = source(tmp_path, INPUT + "\ny = copy(x * {{ config.factor }}.0);")
    assert "{{" not in first.files().texts["graph.nnef"].decode()
    assert "graph.quant" in first.files().texts
    same(first, {"x": (3, 4)})


def test_random_weights(tmp_path: Path) -> None:
    first = source(tmp_path, f"{INPUT}\n{WEIGHT}\ny = matmul(x, w);", random_weights=3)
    same(first, {"x": (3, 4)})


def test_limits_hold_again(tmp_path: Path) -> None:
    first = source(tmp_path, f"{INPUT}\ny = tanh(x);", chosen_limits=Limits(nesting=77))
    assert first.files().limits.nesting == 77
    files = first.files()._replace(limits=Limits(document_bytes=10))
    with pytest.raises(NnefError, match="more than the 10 allowed"):
        source_of(files)


def test_names_in_messages(tmp_path: Path) -> None:
    files = source(tmp_path, f"{INPUT}\ny = tanh(x);").files()
    container = container_of(files)
    assert container.graph_file == files.file == str(tmp_path / "graph.nnef")
    assert container.tensor_file("none") is None
    assert container.json_names() == []
