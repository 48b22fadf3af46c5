"""`nnefc.quantize`: accuracy, samples, and refused arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import nnefc
from nnefc import NnefError
from nnefc.cli.digits import ARCHIVE, HELD_OUT, IMAGES
from nnefc.driver.quantize.layers import layer_names, layers_of
from nnefc.driver.quantize.samples import Folder, Pictures, read_samples

Array = np.ndarray[Any, Any]
HELD: Any = np.load(HELD_OUT)
DIGITS = (HELD["images"][:, None] / np.float32(16)).astype(np.float32)


def accuracy(model: Any) -> float:
    found = [int(model(image[None])[0].argmax()) for image in DIGITS]
    return np.count_nonzero(found == HELD["labels"]) / len(DIGITS)


@pytest.mark.parametrize("activations", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("observer", ["min-max", "percentile", "entropy", "mean-square"])
def test_digits_stay_as_accurate(activations: Any, observer: Any) -> None:
    """Samples are the ten pictures of the demo, which are none of the 450 held out."""
    graph = nnefc.quantize(ARCHIVE, IMAGES, activations=activations, observer=observer)
    assert sum(op.name == "quantize" for op in graph.ops) == 4
    before, after = accuracy(nnefc.compile(ARCHIVE)), accuracy(nnefc.compile(graph))
    assert after >= before - 0.005


def test_folders_iterables_and_arrays_give_the_same_graph(tmp_path: Path) -> None:
    batch = DIGITS[:6]
    np.save(tmp_path / "b.npy", batch[2:])
    np.savez(tmp_path / "a.npz", image=batch[:2], label=np.zeros(2))
    (tmp_path / "notes.txt").write_text("no sample")
    expected = str(nnefc.quantize(ARCHIVE, batch))

    def items() -> Iterator[object]:
        yield {"image": batch[:1]}
        yield from batch[1:4]  # [1, 8, 8], without the batch
        yield batch[4:].astype(np.float64)

    for data in (tmp_path, str(tmp_path), items(), list(items()), {"image": batch}):
        assert str(nnefc.quantize(ARCHIVE, data)) == expected


def test_pictures_are_preprocessed_as_for_run(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)
    (tmp_path / "inner").mkdir()
    Image.fromarray(pixels).save(tmp_path / "inner" / "a.png")
    inputs = nnefc.import_model(ARCHIVE).inputs
    folder = Folder.of(tmp_path, inputs, Pictures(0.5, 0.25))
    assert len(list(folder)) == 1
    for sample in folder:
        np.testing.assert_allclose(
            sample["image"][0, 0], (pixels / 255 - 0.5) / 0.25, rtol=1e-6, atol=1e-6
        )
    quantized = str(nnefc.quantize(ARCHIVE, tmp_path, mean=0.5, std=0.25))
    assert quantized == str(nnefc.quantize(ARCHIVE, folder))


def test_several_inputs_have_as_many_samples(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(
        "version 1.0; graph net(a, b) -> (y) { a = external(shape = [2,3]); "
        "b = external(shape = [3,4]); y = matmul(a, b); }"
    )
    inputs = nnefc.import_model(tmp_path).inputs
    a, b = np.ones((4, 3)), np.arange(12).reshape(3, 4)
    first, second = read_samples({"a": a, "b": b}, inputs)
    assert (first["a"].shape, first["b"].shape) == ((2, 3), (3, 4))
    assert first["a"].dtype == np.float32
    np.testing.assert_array_equal(first["b"], second["b"])
    for data, message in [
        ({"a": a, "b": np.ones((9, 4))}, "a: 2, b: 3"),
        ({"a": a}, "no array for b"),
        (a, "an array is for one input, but the model has a, b"),
        ({"a": np.ones((3, 3)), "b": b}, r"float32\[2, 3\], the array float64\[3, 3\]"),
        ({"a": a, "b": b.astype(str)}, "does not hold"),
    ]:
        with pytest.raises(NnefError, match=message):
            list(read_samples(data, inputs))


@pytest.mark.parametrize(
    ("data", "options", "rule"),
    [
        ([], {}, "quantization/samples"),
        (np.zeros((0, 1, 8, 8)), {}, "quantization/samples"),
        (np.full((1, 1, 8, 8), np.nan), {}, "quantization/finite"),
        (np.full((1, 1, 8, 8), 3e38), {}, "quantization/finite"),
        (3, {}, "quantization/samples"),
        (["text"], {}, "quantization/samples"),
        ("missing", {}, "quantization/samples"),
        (DIGITS[:1], {"observer": "maximum"}, "input/argument"),
        (DIGITS[:1], {"activations": "int4"}, "input/argument"),
        (DIGITS[:1], {"percentile": 99.0}, "input/argument"),
        (DIGITS[:1], {"percentile": 0.0, "observer": "percentile"}, "input/argument"),
        (DIGITS[:1], {"percentile": "most", "observer": "percentile"}, "input/argument"),
        (DIGITS[:1], {"mean": 0.5}, "input/option"),
        (str(IMAGES), {"layout": "chwn"}, "input/argument"),
        (DIGITS[:1], {"threads": 0}, "input/threads"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, options: Any, rule: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NnefError, match=rule):
        nnefc.quantize(ARCHIVE, data, **options)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("folder", r"folder/b\.npy: error: tensor 'image' has nan among its items for sample 4 "),
        ("missing", "missing: error: no such file or folder"),
        ("notes.txt", r"notes\.txt: error: a file of the suffix \.txt is no array and no picture"),
        ("empty", "empty: error: the folder has no files of arrays and no pictures"),
        ({"image": DIGITS[:1], "labels": DIGITS[:1]}, "has no input labels[^$]*inputs are: image"),
        (DIGITS[:1].astype(np.float64) * 1e39, r"image' is float32, which does not hold 1e\+39"),
        (DIGITS[:1].astype(np.complex64), "a sample is given as an array of complex64"),
        ([[[1.0, 2.0], [3.0]]], "a list of rows of different lengths"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_messages_about_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "empty"):
        Path(name).mkdir()
    Path("notes.txt").touch()
    np.save("folder/a.npy", DIGITS[:2])
    np.save("folder/b.npy", np.stack([DIGITS[0], DIGITS[0] * np.nan]))
    with pytest.raises(NnefError, match=message):
        nnefc.quantize(ARCHIVE, data)


def test_models_without_products_are_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(
        "version 1.0; graph net(x) -> (y) { x = external(shape = [3]); y = relu(x); }"
    )
    with pytest.raises(NnefError, match="no products of reals to quantize"):
        nnefc.quantize(tmp_path, np.ones(3))
    with pytest.raises(TypeError, match="unexpected keyword"):
        nnefc.quantize(tmp_path, np.ones(3), batch=1)  # type: ignore[call-arg]


def test_documents_with_codes_are_completed(tmp_path: Path) -> None:
    """graph.quant tells which layers have codes; these stay as they are."""
    part, whole = tmp_path / "part.tgz", tmp_path / "whole.tgz"
    nnefc.save_archive(part, nnefc.quantize(ARCHIVE, IMAGES, keep=["conv1"]))
    graph = nnefc.quantize(part, IMAGES)
    assert sum(op.name == "quantize" for op in graph.ops) == 4
    nnefc.save_archive(whole, graph)
    with pytest.raises(NnefError, match="no products of reals to quantize"):
        nnefc.quantize(whole, IMAGES)


def test_layers_without_names_have_those_of_the_results_behind_them(tmp_path: Path) -> None:
    """`Gemm` with a bias of several rows becomes a product without a name, and a sum."""
    parser: Any = pytest.importorskip("onnx.parser")
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["":17]> '
        "g (float[4,8] x, float[4,8] c) => (float[4,8] y) "
        "<float[8,8] w = {" + ", ".join(map(str, range(64))) + "}> "
        "{ a = Gemm(x, w, c) r = Relu(a) y = Gemm(r, w, c) }"
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    graph = nnefc.import_model(path)
    layers = layers_of(graph)
    assert [layer.op.output.name for layer in layers] == ["", ""]
    assert [layer.name for layer in layers] == ["a", "y"]
    sample = {"x": np.ones((4, 8), np.float32), "c": np.ones((4, 8), np.float32)}
    codes = nnefc.quantize(graph, sample, keep=["a"])
    assert [layer.op.inputs[0].name for layer in layers_of(codes)] == ["x"], "y reads codes"


def test_names_of_layers_differ() -> None:
    values = [
        SimpleNamespace(output=SimpleNamespace(name=name), name="matmul", graph=None)
        for name in ("", "matmul", "y", "")
    ]
    assert layer_names(values) == ["matmul_2", "matmul", "y", "matmul_3"]  # pyright: ignore[reportArgumentType]
