"""Expressions of extents, against graphs that are built for the values of the symbols."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from nnefc.frontends.common.graph_source import MAX_SAMPLES, GraphSource
from nnefc.frontends.common.symbolic_graph import SymbolicGraph, symbolic_graph
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.ir.graph import walk
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from tests.helpers.nnef.conformance import TRACT, needs_tract

HEAD = "version 1.0;\nextension tract_registry tract_core;\nextension tract_registry tract_onnx;\n"
SYMBOLS = "extension tract_symbol B;\nextension tract_symbol S;\n"
EXPORTS = ("cnn_dyn_hw", "audio_conv1d_dyn", "llama_rms_native", "vit_dyn_batch", "lstm_dyn")


def source_of(path: Path) -> GraphSource:
    found = read_model(path, ImportConfig(load_data=False), sources=True)
    assert not isinstance(found, Graph)
    return found


def document(folder: Path, body: str) -> GraphSource:
    path = folder / "net.nnef"
    path.write_text(f"{HEAD}{SYMBOLS}{body}")
    return source_of(path)


def outputs(symbolic: SymbolicGraph) -> list[list[str | None]]:
    return [list(symbolic.extents(value)) for value in symbolic.graph.outputs]


@needs_tract
@pytest.mark.parametrize("name", EXPORTS)
def test_extents_of_networks(name: str) -> None:
    assert TRACT is not None
    source = source_of(TRACT / "exports" / name / "model.nnef.tgz")
    symbolic = symbolic_graph(source, {}, Diagnostics())
    assert symbolic.varying
    checked = 0
    for shapes, values in islice(source.sample_shapes({}), MAX_SAMPLES):
        try:
            other = source.graph(shapes)
        except NnefError:
            continue
        named = {v.name: v.type.dims for op in walk(other) for v in op.outputs if v.name}
        for value in symbolic.varying:
            if value.name in named:
                texts = symbolic.extents(value)
                assert None not in texts, value
                found = tuple(eval(text or "", dict(values)) for text in texts)
                assert found == named[value.name], value
                checked += 1
    assert checked > 8


def test_unnamed_values_and_given_shapes(tmp_path: Path) -> None:
    source = document(
        tmp_path,
        """graph net( x, y ) -> ( z, w ) {
        x = tract_core_external(shape = [B, 2*S, 4], datum_type = 'f32');
        y = tract_core_external(shape = [S + 1], datum_type = 'f32');
        z = reshape(x, shape = [B, -1, 8]);
        w = y * 2.0;
        }""",
    )
    symbolic = symbolic_graph(source, {}, Diagnostics())
    assert outputs(symbolic) == [["B", "S", "8"], ["S + 1"]]
    given = symbolic_graph(source, {"y": (6,)}, Diagnostics())
    assert outputs(given) == [["B", "5", "8"], ["6"]]
    assert set(given.values) == {"B"}
    whole = symbolic_graph(source.with_symbols({"B": 2, "S": 3}), {}, Diagnostics())
    assert (outputs(whole), whole.varying) == ([["2", "3", "8"], ["4"]], {})


def test_extents_without_an_expression(tmp_path: Path) -> None:
    source = document(
        tmp_path,
        """graph net( x ) -> ( y, z ) {
        x = tract_core_external(shape = [1, S], datum_type = 'f32');
        t = x + 1.0;
        y = slice(t, axes = [1], begin = [0], end = [2 if S < 8 else 3]);
        z = relu(t);
        }""",
    )
    assert outputs(symbolic_graph(source, {}, Diagnostics())) == [["1", None], ["1", "S"]]


def test_extents_that_data_determine(tmp_path: Path) -> None:
    source = document(
        tmp_path,
        """graph net( x ) -> ( y ) {
        x = tract_core_external(shape = [S], datum_type = 'f32');
        y = tract_onnx_non_zero(x);
        }""",
    )
    for values in ({}, {"S": 5}):
        found = symbolic_graph(source.with_symbols(values), {}, Diagnostics())
        assert outputs(found)[0] == ["1", None]


def test_an_extent_that_is_1_by_chance(tmp_path: Path) -> None:
    """With the first sample value, 4, the last extent is 1, as a broadcast one is."""
    strides = "size=[1,1,1], stride=[1,4,1], padding=[(0,0),(0,0),(0,0)], dilation=[1,1,1]"
    source = document(
        tmp_path,
        f"""graph net( x ) -> ( y ) {{
        x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
        a = max_pool(x, {strides}, border = 'ignore');
        b = a * a;
        y = b + [[[1.0], [2.0]]] if S > 100 else b;
        }}""",
    )
    found = outputs(symbolic_graph(source, {}, Diagnostics()))
    assert found == [["1", "(S + 3)//4", "4"]]


def test_no_symbol_has_a_value_for_all(tmp_path: Path) -> None:
    source = document(
        tmp_path,
        """graph net( x ) -> ( y ) {
        x = tract_core_external(shape = [S], datum_type = 'f32');
        y = reshape(x, shape = [3, 5]);
        }""",
    )
    with pytest.raises(NnefError):
        symbolic_graph(source, {}, Diagnostics())
