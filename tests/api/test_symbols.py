"""Values of symbols as an option of `compile` and `import_model`."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from tests.helpers.nnef.conformance import tract_cases

Array = np.ndarray[Any, Any]

WINDOWS = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
extension tract_symbol P;
extension tract_symbol B;
extension tract_assert S >= 3;
graph windows( x, past ) -> ( y, z )
{
    x = tract_core_external(shape = [B, 2*S + 1, 4], datum_type = 'f32');
    past = tract_core_external(shape = [P + S, 4], datum_type = 'f32');
    y = x * 2.0;
    z = past + 1.0;
}
"""


@pytest.fixture
def windows(tmp_path: Path) -> Path:
    path = tmp_path / "windows.nnef"
    path.write_text(WINDOWS)
    return path


def items(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def test_extents_that_symbols_determine_are_fixed(windows: Path) -> None:
    values: dict[str, Any] = {"S": 3, "P": np.int64(0), "B": 2}
    model = nnefc.compile(windows, symbols=values, threads=1)
    assert isinstance(model, nnefc.CompiledModel)
    assert [spec.shape for spec in model.inputs] == [(2, 7, 4), (3, 4)]
    x, past = items(2, 7, 4), items(3, 4)
    y, z = model(x, past)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(z, past + np.float32(1))
    graph = nnefc.import_model(windows, symbols=values)
    assert [value.type.dims for value in graph.inputs] == [(2, 7, 4), (3, 4)]


def test_other_symbols_stay_free(windows: Path) -> None:
    model = nnefc.compile(windows, symbols={"S": 3}, threads=1)
    assert isinstance(model, DynamicModel)
    assert model.symbols == ["B", "P"]
    assert list(map(str, model.shapes)) == ["x: [B,7,4]", "past: [P+S,4]"]
    assert [spec.shape for spec in model.inputs] == [(-1, 7, 4), (-1, 4)]
    for batch, past in ((1, 0), (3, 5), (2, 1), (64, 2)):
        x, rows = items(batch, 7, 4), items(past + 3, 4)
        y, z = model(x, rows)
        np.testing.assert_array_equal(y, 2 * x)
        np.testing.assert_array_equal(z, rows + np.float32(1))
    with pytest.raises(nnefc.NnefError, match="axis 1 has to be 7, not 9, as S = 3"):
        model(items(1, 9, 4), items(4, 4))
    fixed = model.for_shapes({"x": (5, 7, 4), "past": (4, 4)})
    assert fixed.inputs[0].shape == (5, 7, 4)


def test_shapes_and_symbols_together(windows: Path) -> None:
    model = nnefc.compile(windows, symbols={"S": 4}, shapes={"past": (6, 4)})
    assert isinstance(model, DynamicModel)
    assert model.symbols == ["B"]
    with pytest.raises(nnefc.NnefError, match="axis 1 has to be 9, not 7, as S = 4"):
        nnefc.compile(windows, symbols={"S": 4}, shapes={"x": (1, 7, 4)})
    with pytest.raises(nnefc.NnefError, match=r"past.* no P makes P\+S 3"):
        nnefc.compile(windows, symbols={"S": 4}, shapes={"past": (3, 4)})


def test_a_symbol_that_no_input_determines(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"
        "extension tract_symbol P;\ngraph g( x ) -> ( y ) {\n"
        " x = tract_core_external(shape = [S, 1], datum_type = 'f32');\n"
        " y = tract_core_broadcast(x, shape = [S, P]) * P;\n}\n"
    )
    x = items(4, 1)
    for value in (3, 5):
        model = nnefc.compile(path, symbols={"P": value}, threads=1)
        np.testing.assert_allclose(model(x), value * np.repeat(x, value, axis=1), rtol=1e-6)
    with pytest.raises(nnefc.NnefError, match="P"):
        nnefc.compile(path, shapes={"x": (4, 1)})


def test_all_errors_are_reported(windows: Path) -> None:
    with pytest.raises(nnefc.NnefError) as caught:
        nnefc.compile(
            windows,
            symbols={"S": 2, "p": 0, "x": 1},
            shapes={"x": (1, 9, 4), "S": (4,), "passt": (4, 4)},
        )
    rules = [error.rule for error in caught.value.errors]
    assert rules == [*["input/shape"] * 2, *["input/symbol"] * 2, "input/shape", "tract/assert"]
    text = str(caught.value)
    assert "'S' is a symbol: x: [B,2*S+1,4], past: [P+S,4]; symbols={'S': VALUE}" in text
    assert "the graph has no input 'passt'; it has x, past" in text
    assert "did you mean 'past'?" in text
    assert "symbol p = 0: the document has no symbol 'p'; it has S, P, B" in text
    assert "did you mean 'P'?" in text
    assert "'x' is an input: shapes= gives its shape" in text
    assert "axis 1 has to be 5, not 9, as S = 2" in text
    assert "S >= 3 does not hold: S = 2" in text


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (["S"], "symbols = ['S']: expected whole numbers by name"),
        ({"S": 1.5}, "symbols['S'] = 1.5"),
        ({"S": True}, "symbols['S'] = True"),
        ({"S": 1 << 63}, f"symbols['S'] = {1 << 63}"),
        ({3: 4}, "symbols[3] = 4"),
    ],
)
def test_wrong_arguments(windows: Path, symbols: Any, message: str) -> None:
    with pytest.raises(nnefc.NnefError) as caught:
        nnefc.compile(windows, symbols=symbols)
    (error,) = caught.value.errors
    assert error.rule == "input/argument"
    assert message in error.message


def test_documents_without_symbols_refuse_values(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text("version 1.0;\ngraph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }")
    with pytest.raises(nnefc.NnefError, match="standard NNEF has no symbols") as caught:
        nnefc.compile(path, symbols={"S": 2})
    assert caught.value.errors[0].rule == "input/symbol"
    with pytest.raises(nnefc.NnefError, match="no symbol 'S': no extent is a symbol"):
        nnefc.compile(path, symbols={"S": 2}, dialect="tract")


def exports() -> Iterator[Any]:
    for file in tract_cases("exports/*/meta.json"):
        meta = json.loads(file.read_text())
        if axes := meta.get("dynamic_axes"):
            yield pytest.param(file.parent, meta, axes, id=file.parent.name)


@pytest.mark.parametrize(("folder", "meta", "axes"), list(exports()))
def test_exports_with_values_give_the_results_of_pytorch(
    folder: Path, meta: dict[str, Any], axes: dict[str, dict[str, str]]
) -> None:
    arrays = np.load(folder / "io.npz")
    run = meta.get("valid_runs", [0, 1])[-1]
    feeds = {name: arrays[f"run{run}/{name}" if run else name] for name in meta["inputs"]}
    values = {
        symbol: feeds[name].shape[int(axis)]
        for name, of_axes in axes.items()
        for axis, symbol in of_axes.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        model = nnefc.compile(folder / "model.nnef.tgz", symbols=values, keep=False)
    assert isinstance(model, nnefc.CompiledModel)
    assert [spec.shape for spec in model.inputs] == [x.shape for x in feeds.values()]
    found: Any = model(*feeds.values())
    for name, y in zip(
        meta["outputs"], found if len(meta["outputs"]) > 1 else [found], strict=True
    ):
        want = arrays[f"run{run}/{name}" if run else name]
        np.testing.assert_allclose(y, want, rtol=5e-4, atol=1e-4)


def test_saved_models_keep_the_values(windows: Path, tmp_path: Path) -> None:
    model = nnefc.compile(windows, symbols={"S": 3}, threads=1)
    x, past = items(2, 7, 4), items(4, 4)
    want = model(x, past)
    model.save(tmp_path / "model.nnefc")
    for copy in (
        nnefc.load(tmp_path / "model.nnefc", threads=1),
        pickle.loads(pickle.dumps(model)),
    ):
        assert isinstance(copy, DynamicModel)
        for found, expected in zip(copy(x, past), want, strict=True):
            np.testing.assert_array_equal(found, expected)
        y, _ = copy(items(64, 7, 4), items(9, 4))  # another plan
        np.testing.assert_array_equal(y, 2 * items(64, 7, 4))
        assert list(map(str, copy.shapes)) == ["x: [B,7,4]", "past: [P+S,4]"]
        with pytest.raises(nnefc.NnefError, match="axis 1 has to be 7, not 9, as S = 3"):
            copy(items(1, 9, 4), past)
