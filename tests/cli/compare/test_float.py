"""`nnefc compare --float`: a quantized model and that of reals, layer by layer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import HELD_OUT, IMAGES
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS, SMALL, Cli


@pytest.mark.parametrize("name", ["q.onnx", "q.nnef.tgz"])
def test_ratios_are_those_of_the_reference(cli: Cli, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    assert cli("quantize", DIGITS, "--data", IMAGES, "-o", output, "--keep", "conv1").status == 0
    image = np.load(HELD_OUT)["images"][3][None, None] / np.float32(16)
    np.save(tmp_path / "image.npy", image)
    arguments = ("--float", DIGITS, output, "-i", tmp_path / "image.npy")
    facts = json.loads(cli("compare", *arguments, "--json").out)
    rows = {row["tensor"]: row for row in facts["tensors"]}
    assert rows["conv1"]["signal_to_noise"] is None, "without noise"
    graphs = nnefc.import_model(DIGITS), nnefc.import_model(output)
    found = [evaluate(graph, {"image": image}, keep="all").values for graph in graphs]
    reals, codes = ({v.name: array for v, array in each.items()} for each in found)
    for tensor in ("conv2", "conv3", "scores", "probabilities"):
        noise = np.sum((codes[tensor] - reals[tensor]) ** 2)
        ratio = 10 * np.log10(np.sum(reals[tensor] ** 2) / noise)
        assert rows[tensor]["signal_to_noise"] == pytest.approx(ratio, abs=0.3)
    assert facts["tensors"][-1]["operation"] == "output"
    shown = cli("compare", *arguments)
    assert shown.status == 0
    assert f"{rows['conv2']['signal_to_noise']:.1f} dB" in shown.out
    assert f"the least ratio has {facts['least']}" in shown.out


@pytest.mark.parametrize("name", ["q.onnx", "q.nnef.tgz"])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_random_inputs_lie_within_the_codes(
    cli: Cli, tmp_path: Path, name: str, activations: str
) -> None:
    output = tmp_path / name
    options = ("--data", IMAGES, "-o", output, "--activations", activations)
    assert cli("quantize", DIGITS, *options).status == 0
    shown = cli("compare", "--float", DIGITS, output)
    assert shown.status == 0, shown.err
    assert "random values for image; give a sample with -i" in shown.out
    facts = json.loads(cli("compare", "--float", DIGITS, output, "--json").out)
    assert facts["random_inputs"] == ["image"]
    ratios = {row["tensor"]: row["signal_to_noise"] for row in facts["tensors"]}
    # samples have 48 dB and 46 dB; normally distributed inputs would have 3 dB
    assert ratios["conv1"] > 40
    assert ratios["scores"] > 30


def test_other_models_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(SMALL)
    shown = cli("compare", "--float", DIGITS, tmp_path, "--random-weights", 1)
    assert shown.status == 1
    assert "[input/option]" in shown.err
    for other in ("--tolerance=1", "--all", "--precision=bfloat16"):
        refused = cli("compare", "--float", DIGITS, DIGITS, other)
        assert f"--float does not take {other.partition('=')[0]} [input/option]" in refused.err
    (artifact := tmp_path / "net.nnefc").touch()
    for pair in ((DIGITS, artifact), (artifact, DIGITS)):
        assert "net.nnefc is an artifact" in cli("compare", "--float", *pair).err


def test_files_give_symbols_their_values(cli: Cli, tmp_path: Path) -> None:
    """Without noise, as both models are the same."""
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["":17]> g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }'
    )
    path, data = tmp_path / "net.onnx", tmp_path / "x.npy"
    path.write_bytes(model.SerializeToString())
    np.save(data, np.ones((3, 4), np.float32))
    facts = json.loads(cli("compare", "--float", path, path, "-i", data, "--json").out)
    assert facts["tensors"][0]["shape"] == [3, 4]
    shown = cli("compare", "--float", path, path)
    assert "2 tensors, no noise" in shown.out
