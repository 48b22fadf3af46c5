"""`nnefc quantize`, as a user types it."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# (arrays of any type)

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import HELD_OUT, IMAGES
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS, SMALL, Cli
from tests.helpers.onnx.models import passing, save


def by_onnxruntime(path: Path, images: Any) -> Any:
    ort: Any = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    # fused integer kernels saturate sums of pairs on processors without dot instructions
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options)
    return np.concatenate([session.run(None, {"image": image})[0] for image in images])


@pytest.mark.parametrize("name", ["net.onnx", "net.nnef.tgz", "net"])
def test_written_models_compute_the_quantized_graph(cli: Cli, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    options = () if name == "net.onnx" else ("--to", "tract")
    options = ("-o", output, "--observer", "min-max", *options)
    shown = cli("quantize", DIGITS, "--data", IMAGES, *options)
    assert shown.status == 0, shown.err
    assert "10 samples, ranges by min-max" in shown.out
    assert "weights 26." in shown.out
    assert "KiB instead of 99.1 KiB" in shown.out
    expected = nnefc.quantize(DIGITS, IMAGES, observer="min-max")
    model, written = nnefc.compile(expected), nnefc.compile(output)
    images = np.load(HELD_OUT)["images"][:20, None, None] / np.float32(16)
    for image in images:
        np.testing.assert_allclose(written(image), model(image), rtol=0, atol=5e-3)


def test_noise_is_that_of_onnxruntime(cli: Cli, tmp_path: Path) -> None:
    """The ratios of outputs and layers, from the files and the reference."""
    images = np.load(HELD_OUT)["images"][:12, None, None] / np.float32(16)
    np.save(tmp_path / "images.npy", images[:, 0])
    options = ("--data", tmp_path / "images.npy", "--json", "--activations", "int8")
    facts = json.loads(cli("quantize", DIGITS, *options, "-o", tmp_path / "q.onnx").out)
    assert cli("convert", DIGITS, "-o", tmp_path / "f.onnx").status == 0
    assert facts["samples"] == 12
    reals = by_onnxruntime(tmp_path / "f.onnx", images).astype(np.float64)
    codes = by_onnxruntime(tmp_path / "q.onnx", images)
    expected = 10 * np.log10(np.sum(reals**2) / np.sum((codes - reals) ** 2))
    rows = {each["layer"]: each for each in facts["layers"]}
    classes = float(np.mean(reals.argmax(1) == codes.argmax(1)))
    assert rows["probabilities"]["agreement"] == pytest.approx(classes)
    assert rows["probabilities"]["measure"] == "top-1"
    assert list(rows) == ["conv1", "conv2", "conv3", "scores", "probabilities"]
    assert rows["probabilities"]["signal_to_noise"] == pytest.approx(expected, abs=0.5)
    assert rows["probabilities"]["operation"] == "output"
    graphs = nnefc.import_model(DIGITS), nnefc.import_model(tmp_path / "q.onnx")
    sums = np.zeros(2)
    for image in images:
        found = [evaluate(graph, {"image": image}, keep="all").values for graph in graphs]
        real, code = ({v.name: a for v, a in each.items()}["conv2"] for each in found)
        sums += np.sum(real**2), np.sum((code - real) ** 2)
    ratio = 10 * np.log10(sums[0] / sums[1])
    assert rows["conv2"]["signal_to_noise"] == pytest.approx(ratio, abs=0.5)
    (image,) = rows["conv1"]["activations"]
    assert (image["tensor"], image["low"], image["high"]) == ("image", 0.0, 1.0)
    assert (image["scale"], image["zero_point"]) == (pytest.approx(1 / 255), -128)


def test_layers_without_noise_and_results_of_zeros(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(SMALL)
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3, 8, 8)), other=np.ones(3))
    (tmp_path / "conv").mkdir()
    nnefc.write_tensor(tmp_path / "conv" / "filter.dat", np.ones((4, 3, 3, 3), np.float32))
    nnefc.write_tensor(tmp_path / "conv" / "bias.dat", np.array([[0, 0, 0, 0]], np.float32))
    options = ("--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx")
    shown = cli("quantize", tmp_path, *options)
    assert shown.status == 0, shown.err
    assert "all 0" in shown.out
    assert "0 to 0" in shown.out
    facts = json.loads(cli("quantize", tmp_path, *options, "--json").out)
    assert [each["signal_to_noise"] for each in facts["layers"]] == [None, None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "empty"), "quantization/samples"),
        (("--data", "missing.npy"), "missing.npy"),
        (("--data", "x.npy"), r"image' is float32[1, 1, 8, 8], the array float64[3, 3]"),
        (("--data", "nan.npy"), "quantization/finite"),
        (("--data", IMAGES, "--observer", "most"), "observer = 'most'"),
        (("--data", IMAGES, "--activations", "int4"), "activations = 'int4'"),
        (("--data", IMAGES, "--percentile", "99"), "only for the observer 'percentile'"),
        (("--data", IMAGES, "--std", "0"), "cannot be divided by 0"),
        (("--data", "nan.npy", "--mean", "0.5"), "for pictures"),
        (("--data", IMAGES, "-o", "net.tflite"), "no format has the suffix .tflite"),
    ],
)
def test_wrong_options_write_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    np.save("x.npy", np.zeros((3, 3)))
    np.save("nan.npy", np.full((1, 1, 8, 8), np.nan))
    before = sorted(tmp_path.iterdir())
    shown = cli("quantize", DIGITS, "-o", "net.onnx", *options)
    assert shown.status == 1
    assert message in shown.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "missing/q.onnx"), "missing/q.onnx: error: cannot write"),
        (("-o", "missing/q.tgz"), "missing/q.tgz: error: cannot write"),
        (("-o", "missing/q"), "its parent folder does not exist"),
        (("-o", "full"), "the folder exists and is not empty"),
        (("-o", "folder.tgz"), "a folder of this name exists"),
        (("-o", "folder.onnx"), "folder.onnx: error: cannot write a file here: this is a folder"),
        (("-o", "q.onnx", "--html", "folder.html"), "cannot write a file here: this is a folder"),
    ],
)
def test_outputs_are_checked_before_the_model_is_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("full", "folder.tgz", "folder.onnx", "folder.html"):
        Path(name).mkdir()
    Path("full/x").touch()
    Path("net.onnx").write_text("no model")
    commands = [("quantize", "--data", IMAGES)] + ([("convert",)] if len(options) == 2 else [])
    for command, *data in commands:
        shown = cli(command, "net.onnx", *data, *options)
        assert shown.status == 1
        assert message in shown.err
        assert "net.onnx" not in shown.err


def test_models_without_products_are_refused(cli: Cli, tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3)))
    shown = cli("quantize", path, "--data", tmp_path / "x.npz", "-o", tmp_path / "q.onnx")
    assert shown.status == 1
    assert "quantization/model" in shown.err or "quantization/samples" in shown.err


def test_layers_stay_reals(cli: Cli, tmp_path: Path) -> None:
    options = ("--data", IMAGES, "-o", tmp_path / "q.onnx", "--keep", "conv1", "--keep", "scores")
    shown = cli("quantize", DIGITS, *options)
    assert shown.status == 0, shown.err
    assert shown.out.count(" reals ") == 2
    facts = json.loads(cli("quantize", DIGITS, *options, "--json").out)
    assert [each.get("quantized") for each in facts["layers"]] == [False, True, True, False, None]
    assert facts["layers"][0]["signal_to_noise"] is None, "without noise"
    options = ("--data", IMAGES, "-o", tmp_path / "s.onnx", "--signal-to-noise", "1")
    assert " reals " not in cli("quantize", DIGITS, *options).out
    shown = cli("quantize", DIGITS, *options[:-1], "500")
    assert shown.status == 1
    assert "quantization/keep" in shown.err


@pytest.mark.parametrize("measure", ["cosine", "psnr"])
def test_layers_stay_for_a_bound_in_percent(cli: Cli, tmp_path: Path, measure: str) -> None:
    """The loss of the written file is that of onnxruntime, and within the bound."""
    images = np.load(HELD_OUT)["images"][:12, None, None] / np.float32(16)
    np.save(tmp_path / "images.npy", images[:, 0])
    options = ("--data", tmp_path / "images.npy", "--measure", measure, "-o", tmp_path / "q.onnx")
    every = json.loads(cli("quantize", DIGITS, *options, "--json").out)["layers"]
    bound = every[-1]["loss_percent"] / 2
    shown = cli("quantize", DIGITS, *options, "--keep", f"{bound:.9f}%", "--json")
    layers = json.loads(shown.out)["layers"]
    assert 0 < sum(each.get("quantized", False) for each in layers) < 4
    assert layers[-1]["loss_percent"] <= bound
    assert cli("convert", DIGITS, "-o", tmp_path / "f.onnx").status == 0
    a = by_onnxruntime(tmp_path / "f.onnx", images).astype(np.float64)
    b = by_onnxruntime(tmp_path / "q.onnx", images).astype(np.float64)
    if measure == "cosine":
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        loss = 100 * float(np.mean(1 - np.sum(a * b, axis=1) / lengths))
    else:
        loss = 100 * float(np.sqrt(np.mean((a - b) ** 2)) / np.ptp(a))
    assert layers[-1]["loss_percent"] == pytest.approx(loss, rel=0.05)
    shown = cli("quantize", DIGITS, *options, "--keep", f"{bound:.9f}%")
    assert f" {measure} " in shown.out


def test_biases_are_corrected(cli: Cli, tmp_path: Path) -> None:
    options = ("--data", IMAGES, "-o", tmp_path / "q.onnx", "--correct-bias")
    assert cli("quantize", DIGITS, *options).status == 0
    onnx: Any = pytest.importorskip("onnx")
    proto = onnx.load(tmp_path / "q.onnx")
    written = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    expected = nnefc.quantize(DIGITS, IMAGES, correct_bias=True)
    others = nnefc.quantize(DIGITS, IMAGES)
    for label in ("conv1", "conv2", "conv3", "linear"):
        name = f"{label}/bias_quantized"
        data, other = expected.variables[name].data, others.variables[name].data
        assert data is not None
        assert other is not None
        np.testing.assert_array_equal(written[name], data[0])
        assert (data != other).any()


def test_a_page_has_bars_for_every_layer(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    options = ("--data", IMAGES, "-o", tmp_path / "q.onnx", "--json", "--html", page)
    range_ = ("--observer", "percentile", "--percentile", "90")
    facts = json.loads(cli("quantize", DIGITS, *options, *range_, "--keep", "conv3").out)
    text = page.read_text().removeprefix("<!doctype html>")
    root = ElementTree.fromstring(text.replace('<meta charset="utf-8">', ""))
    rows = [list(row.iter("td")) for row in root.iter("tr")][1:]
    assert [row[0].text for row in rows] == [each["layer"] for each in facts["layers"]]
    for row, layer in zip(rows, facts["layers"], strict=True):
        ratio = layer["signal_to_noise"]
        (bar,) = row[3].iter("div")
        assert bar.get("style") == f"width: {100 * min(ratio / 60, 1):.1f}%"
        assert row[7].text == ("reals" if layer.get("quantized") is False else row[7].text)
    assert rows[-1][4].text == "top-1 100 %"
    (conv2,) = facts["layers"][1]["activations"]
    # of the values, 5 % are left out at each end; half of them are 0, the first code
    assert 0.02 < conv2["saturated"] < 0.06
    assert cli("quantize", DIGITS, *options[:-1], "report.svg").status == 1


def test_the_range_of_codes_is_shown_where_it_is_smaller(cli: Cli, tmp_path: Path) -> None:
    options = ("--data", IMAGES, "-o", tmp_path / "q.onnx", "--observer", "percentile")
    shown = cli("quantize", DIGITS, *options, "--percentile", "60")
    assert shown.status == 0, shown.err
    assert (
        "warning: layers read many values outside of the range of the codes: conv1 19%, "
        in shown.err
    )
    assert "[quantization/saturation]" in shown.err
    assert re.search(r" 0 to 1\.359 \(codes: 0 to 0\.\d+\) ", shown.out)
    clipped = json.loads(cli("quantize", DIGITS, *options, "--percentile", "60", "--json").out)
    assert [each["rule"] for each in clipped["warnings"]] == ["quantization/saturation"]
    (conv2,) = clipped["layers"][1]["activations"]
    assert conv2["code_high"] == pytest.approx(conv2["scale"] * 255)
    shown = cli("quantize", DIGITS, *options[:-1], "min-max")
    assert "codes:" not in shown.out
    assert shown.err == ""


def test_a_model_is_not_replaced_by_its_codes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert cli("convert", DIGITS, "-o", path).status == 0
    before = path.read_bytes()
    shown = cli("quantize", path, "--data", IMAGES, "-o", tmp_path / "." / "net.onnx")
    assert shown.status == 1
    assert "would replace" in shown.err
    assert path.read_bytes() == before


def test_activations_of_16_bits(cli: Cli, tmp_path: Path) -> None:
    options = ("--data", IMAGES, "-o", tmp_path / "q.onnx", "--activations", "16")
    shown = cli("quantize", DIGITS, *options)
    assert shown.status == 0, shown.err
    assert "operators ai.onnx 21" in shown.out
    assert "warning" not in shown.err
    onnx: Any = pytest.importorskip("onnx")
    proto = onnx.load(tmp_path / "q.onnx")
    onnx.checker.check_model(proto)
    types = {each.name: each.data_type for each in proto.graph.initializer}
    rounded = [node for node in proto.graph.node if node.op_type == "QuantizeLinear"]
    assert [types[node.input[2]] for node in rounded] == [onnx.TensorProto.INT16] * 4
