"""Packages through the public functions: folders, archives, connected models, Circle, errors."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.read_model import read_graph, read_model
from nnefc.ir import Graph
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from tests.frontends.tflite.test_conformance import arrays
from tests.frontends.tflite.test_read_model import sequence_layer
from tests.helpers.nnef.conformance import TFLITE, needs_tflite
from tests.helpers.tflite.one_operator import content_of, inputs_of, litert_results
from tests.helpers.tflite.packages import (
    DIAMOND,
    SHAPE,
    binary,
    circle,
    diamond_models,
    files_of,
    save_folder,
    save_zip,
)
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

MAIN = {"main-model": "net.model"}


def results(graph: Graph, *inputs: Any) -> list[Any]:
    assert verify(graph) == []
    named = {value.name: x for value, x in zip(graph.inputs, inputs, strict=True)}
    return [np.asarray(y) for y in evaluate(graph, named).outputs.values()]


def values(count: int) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count)]


def error_of(path: Path) -> NnefError:
    with pytest.raises(NnefError) as caught:
        read_model(path)
    return caught.value


# -- one model


def one_model() -> dict[str, bytes]:
    return files_of(MAIN, {"net.model": binary("SUB", ["x", "y"], "z")})


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("top", ["", "package/"])
def test_archives(tmp_path: Path, compression: int, top: str) -> None:
    graph = read_graph(save_zip(one_model(), tmp_path / "net.zip", compression, top))
    x, y = values(2)
    np.testing.assert_allclose(results(graph, x, y)[0], x - y, rtol=1e-6)
    assert [each.name for each in graph.inputs] == ["x", "y"]


def test_archives_of_any_name(tmp_path: Path) -> None:
    assert read_graph(save_zip(one_model(), tmp_path / "net.nnpackage")).output_names == ["z"]


def test_folders(tmp_path: Path) -> None:
    assert read_graph(save_folder(one_model(), tmp_path)).output_names == ["z"]


def test_a_document_comes_before_a_manifest(tmp_path: Path) -> None:
    text = b"version 1.0;\ngraph g(x) -> (w) { x = external(shape=[1]); w = relu(x); }"
    files = {**one_model(), "graph.nnef": text}
    assert read_graph(save_folder(files, tmp_path / "folder")).output_names == ["w"]
    assert read_graph(save_zip(files, tmp_path / "net.zip")).output_names == ["w"]


def test_the_first_of_unconnected_models(tmp_path: Path) -> None:
    models = {"b": binary("SUB", ["x", "y"], "z"), "a": b"not read"}
    path = save_folder(files_of({"models": ["b", "a"], "model-types": []}, models), tmp_path)
    diagnostics = Diagnostics()
    assert read_graph(path, diagnostics=diagnostics).output_names == ["z"]
    (warning,) = diagnostics.warnings
    assert "2 models that are not connected; the first is used, 'b'" in warning.message


def test_custom_operators_and_missing_configurations_are_told(tmp_path: Path) -> None:
    files = files_of(
        {**MAIN, "configs": ["a.cfg", "b.cfg"]}, {"net.model": one_model()["net.model"]}
    )
    files |= {"custom_op/libown.so": b"\x7fELF", "metadata/a.cfg": b"BACKENDS=cpu"}
    for path in (save_folder(files, tmp_path / "folder"), save_zip(files, tmp_path / "net.zip")):
        diagnostics = Diagnostics()
        read_graph(path, diagnostics=diagnostics)
        first, second = (str(each) for each in diagnostics.warnings)
        assert "metadata/MANIFEST: warning: 'configs' names 'b.cfg'" in first
        assert "which is not executed: libown.so" in second


@pytest.mark.usefixtures("keep_models")
def test_the_cache_sees_changes_of_a_folder(tmp_path: Path) -> None:
    path = save_folder(one_model(), tmp_path / "package")
    x, y = values(2)
    np.testing.assert_allclose(nnefc.compile(path)(x, y), x - y, rtol=1e-6)
    save_folder(files_of(MAIN, {"net.model": binary("MUL", ["x", "y"], "z")}), path)
    np.testing.assert_allclose(nnefc.compile(path)(x, y), x * y, rtol=1e-6)
    save_folder(files_of({"main-model": "new"}, {"new": binary("ADD", ["x", "y"], "z")}), path)
    np.testing.assert_allclose(nnefc.compile(path)(x, y), x + y, rtol=1e-6)


@needs_tflite
def test_conformance() -> None:
    assert TFLITE is not None
    folder = TFLITE / "nnpackage"
    for case in json.loads((folder / "index.json").read_text()):
        path = folder / case["package"]
        if case["expect"] == "error":
            error_of(path)
            continue
        graph = read_graph(path)
        files = sorted(folder.glob(f"{path.stem}.io*.npz"))
        assert files
        for file in files:
            actual = results(graph, *arrays(file, "in"))
            for one, want in zip(actual, arrays(file, "out"), strict=True):
                tolerance = case["tolerance"]
                if want.dtype.kind == "f":
                    limits = tolerance["rtol"], tolerance["atol"]
                    np.testing.assert_allclose(one, want, *limits)
                else:
                    np.testing.assert_array_equal(one, want)


# -- connected models


def test_connected_models(tmp_path: Path) -> None:
    graph = read_graph(save_folder(files_of(DIAMOND, diamond_models()), tmp_path))
    assert [each.name for each in graph.inputs] == ["b", "a", "c"]
    assert graph.output_names == ["out", "s"]
    b, a, c = values(3)
    difference, total = results(graph, b, a, c)
    np.testing.assert_allclose(total, a + b, rtol=1e-6)
    np.testing.assert_allclose(difference, 2 * (a + b) - c, rtol=1e-5, atol=1e-6)


def test_models_are_ordered_by_their_connections(tmp_path: Path) -> None:
    manifest = {
        "models": ["last", "first"],
        "pkg-inputs": ["1:0:0", "0:0:1", "1:0:1"],
        "pkg-outputs": ["0:0:0"],
        "model-connect": [{"from": "1:0:0", "to": "0:0:0"}],
    }
    names = ["x", "y"]
    models = {"last": binary("DIV", names, "z"), "first": binary("SUB", names, "z")}
    graph = read_graph(save_zip(files_of(manifest, models), tmp_path / "net.zip"))
    assert len({each.name for each in graph.inputs}) == 3
    a, b, c = values(3)
    np.testing.assert_allclose(results(graph, a, b, c)[0], (a - c) / b, rtol=1e-4)


def test_states_of_connected_models_and_artifacts(tmp_path: Path) -> None:
    case = sequence_layer()
    manifest = {
        "models": ["layer", "double"],
        "pkg-inputs": ["0:0:0"],
        "pkg-outputs": ["1:0:0"],
        "model-connect": [{"from": "0:0:0", "to": ["1:0:0"]}],
    }
    content = content_of(case)
    double = binary("ADD", ["x"], "y", shape=(2, 5, 4))
    files = files_of(manifest, {"layer": content, "double": double})
    calls = [inputs_of(case), inputs_of(case)]
    expected = litert_results(content, calls)
    compiled: Any = nnefc.compile(save_folder(files, tmp_path / "package"), keep=False)
    check_session(compiled, calls, expected)
    compiled.save(tmp_path / "net.nnefc")
    check_session(nnefc.load(tmp_path / "net.nnefc"), calls, expected)


def check_session(model: Any, calls: list[Any], expected: list[Any]) -> None:
    """The calls of a session return twice what is expected."""
    session = model.session()
    for inputs, (wanted,) in zip(calls, expected, strict=True):
        np.testing.assert_allclose(session(*inputs), 2 * wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"pkg-outputs": []}, ["'pkg-outputs' is missing or empty"]),
        ({"pkg-inputs": ["0:0:1", "0:0:0"]}, ["input '2:0:1' (tensor 1 'c') has no value"]),
        (
            {"pkg-inputs": ["0:0:0", "0:0:0", "1:0:0", "2:0:1"]},
            [
                "input '0:0:0' (tensor 0 'a') is given 2 times",
                "input '0:0:1' (tensor 1 'b') has no value",
                "input '1:0:0' (tensor 0 'x') is given 2 times",
            ],
        ),
        (
            {"pkg-outputs": ["3:0:0", "0:1:0", "0:0:1"]},
            [
                "'pkg-outputs'[0] is '3:0:0', but the package has 3 models",
                "'pkg-outputs'[1] is '0:1:0', but only subgraph 0",
                "'pkg-outputs'[2] is '0:0:1', but model 0 has 1 outputs",
            ],
        ),
        (
            {
                "model-connect": [
                    {"from": "1:0:0", "to": ["2:0:0"]},
                    {"from": "2:0:0", "to": ["1:0:0"]},
                ]
            },
            ["the connections of models 1, 2 form a cycle"],
        ),
    ],
)
def test_wrong_connections(changes: Any, messages: list[str], tmp_path: Path) -> None:
    files = files_of({**DIAMOND, **changes}, diamond_models())
    error = error_of(save_folder(files, tmp_path))
    for message in messages:
        assert message in str(error)
    assert all(str(each.place).endswith("metadata/MANIFEST") for each in error.errors)


def test_connected_tensors_must_fit(tmp_path: Path) -> None:
    models = {**diamond_models(), "double.tflite": binary("ADD", ["x"], "y", "INT32")}
    error = error_of(save_folder(files_of(DIAMOND, models), tmp_path))
    assert "output '0:0:0' is FLOAT32 [2, 3], input '1:0:0' is INT32 [2, 3]" in str(error)


def moved_codes(type_: str, scale: float, zero: int) -> bytes:
    """A model that returns its codes."""
    codes = {"scale": (scale,), "zero_point": (zero,)}
    tensors = [tensor(SHAPE, type_, name, quantization=codes) for name in "ab"]
    graph = subgraph(tensors, [operator(0, (0,), (1,))], (0,), (1,))
    return write(model([operator_code("RESHAPE")], [graph]))


@pytest.mark.parametrize("type_", ["UINT8", "INT8", "INT16"])
def test_reals_and_codes_are_connected(type_: str, tmp_path: Path) -> None:
    """Reals become the codes of an input, and codes the reals of the next input."""
    zero = {"UINT8": 100, "INT8": -7, "INT16": 0}[type_]
    scale = {"UINT8": 0.03, "INT8": 0.03, "INT16": 2.0**-13}[type_]
    models = {**diamond_models(), "double.tflite": moved_codes(type_, scale, zero)}
    a, b, c = values(3)
    graph = read_graph(save_folder(files_of(DIAMOND, models), tmp_path))
    limits = np.iinfo(type_.lower())
    ratio = (a + b).astype(np.float64) / np.float32(scale)
    away = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    codes = np.clip(away + zero, limits.min, limits.max)
    expected = (codes - zero) * np.float32(scale) - c
    (actual, _) = results(graph, b, a, c)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_codes_of_other_scales_are_not_connected(tmp_path: Path) -> None:
    files = {"a": moved_codes("INT8", 0.5, 0), "b": moved_codes("INT8", 0.25, 0)}
    manifest = {
        "models": ["a", "b"],
        "pkg-inputs": ["0:0:0"],
        "pkg-outputs": ["1:0:0"],
        "model-connect": [{"from": "0:0:0", "to": ["1:0:0"]}],
    }
    error = error_of(save_folder(files_of(manifest, files), tmp_path))
    assert "output '0:0:0' is INT8 [2, 3] (scale (0.5,), zero point (0,))" in str(error)


# -- Circle


def test_circle(tmp_path: Path) -> None:
    (tmp_path / "net.circle").write_bytes(circle("MUL"))
    x, y = values(2)
    np.testing.assert_allclose(results(read_graph(tmp_path / "net.circle"), x, y)[0], x * y, 1e-6)
    manifest = {"models": ["net"], "model-types": ["circle"]}
    path = save_folder(files_of(manifest, {"net": circle("MUL")}), tmp_path / "package")
    np.testing.assert_allclose(results(read_graph(path), x, y)[0], x * y, 1e-6)


@pytest.mark.parametrize(
    ("code", "name"), [(-2, "INSTANCE_NORM"), (-4, "BCQ_GATHER"), (-99, "-99")]
)
def test_operators_of_circle_are_refused_by_name(code: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "net.circle").write_bytes(circle("ADD", code))
    assert f"operator {name}" in str(error_of(tmp_path / "net.circle"))


def test_the_type_of_a_model_must_be_that_of_the_manifest(tmp_path: Path) -> None:
    manifest = {"models": ["net"], "model-types": ["tflite"]}
    error = error_of(save_folder(files_of(manifest, {"net": circle("MUL")}), tmp_path))
    assert "'model-types'[0] is 'tflite', but 'net' is a model of type circle" in str(error)


# -- errors


def test_models_that_are_missing_or_damaged(tmp_path: Path) -> None:
    manifest = {"models": ["a", "b"]}
    error = error_of(save_folder(files_of(manifest, {}), tmp_path / "missing"))
    assert [each.rule for each in error.errors] == ["tflite/package"] * 2
    assert "model 1 is 'b', but the package has no such file" in str(error)
    files = files_of(DIAMOND, dict.fromkeys(diamond_models(), b"damaged!"))
    error = error_of(save_zip(files, tmp_path / "net.zip"))
    assert [each.rule for each in error.errors] == ["tflite/flatbuffer"] * 3
    assert "net.zip/double.tflite: error" in str(error)


def test_a_model_without_a_manifest(tmp_path: Path) -> None:
    path = save_zip({"net.tflite": binary("ADD", ["x", "y"], "z")}, tmp_path / "net.zip")
    assert "a package of TensorFlow Lite models needs metadata/MANIFEST" in str(error_of(path))


def test_a_dialect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="has no dialect of NNEF"):
        read_model(save_folder(one_model(), tmp_path), ImportConfig(dialect="tract"))


def test_hostile_archives(tmp_path: Path) -> None:
    path = save_zip({**one_model(), "../escape": b""}, tmp_path / "escape.zip")
    assert "leads out of the archive" in str(error_of(path))
    path = save_zip({**one_model(), "bomb": bytes(200 << 20)}, tmp_path / "bomb.zip")
    assert error_of(path).errors[0].rule == "limit/archive"
    path = save_zip(one_model(), tmp_path / "twice.zip")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net.model", b"other")
    assert "occurs more than once" in str(error_of(path))
    path = save_zip(one_model(), tmp_path / "link.zip")
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "not a regular file" in str(error_of(path))


def test_damaged_archives(tmp_path: Path) -> None:
    content = save_zip(one_model(), tmp_path / "net.zip").read_bytes()
    rng = np.random.default_rng(1)
    damaged = tmp_path / "damaged.zip"
    for _ in range(150):
        changed = bytearray(content)
        for at in rng.integers(0, len(content), 3):
            changed[at] = rng.integers(0, 256)
        damaged.write_bytes(changed)
        try:
            read_model(damaged)
        except NnefError as error:
            assert not any(each.rule.startswith("internal") for each in error.errors)
