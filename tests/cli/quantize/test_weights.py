"""`nnefc quantize --weights`, as a user types it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import IMAGES
from tests.helpers.command_line import DIGITS, Cli
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.models.test_block_quantized import decoded

MATRIX = np.random.default_rng(2).standard_normal((64, 96)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """An ONNX file with a symbolic batch, a known matrix and one that cannot be in blocks."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["m", "v"], ["y"])]
    ends = [tensor("x", ["B", 3, 64])], [tensor("y", ["B", 3, 2])]
    weights = [weight("w", MATRIX), weight("v", np.ones((96, 2), np.float32))]
    return save(model(nodes, *ends, weights), tmp_path / "net.onnx")


@pytest.mark.parametrize("name", ["q4.onnx", "q4.nnef.tgz"])
def test_a_model_is_written_without_samples(cli: Cli, net: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    shown = cli("quantize", net, "--weights", "q4_0", "-o", output, "--keep", "y")
    assert shown.status == 0, shown.err
    assert "reals: kept" in shown.out
    assert "weights in q4_0" in shown.out
    expected = nnefc.quantize(net, weights="q4_0", keep=["y"], symbols={"B": 5})
    (label,) = [label for label in expected.variables if label.endswith("q4_0")]
    codes = expected.variables[label].data
    assert codes is not None
    wide = decoded(codes, "q4_0").reshape(96, 64).T.astype(np.float64)
    x = np.random.default_rng(0).standard_normal((5, 3, 64)).astype(np.float32)
    found = nnefc.compile(output, symbols={"B": 5}, accuracy="strict")(x)
    np.testing.assert_allclose(found, (x @ wide).sum(2, keepdims=True).repeat(2, 2), 1e-3, 1e-3)


def test_the_report_has_noise_and_bytes(cli: Cli, net: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    options = ("--weights", "q8_0", "-o", tmp_path / "q8.nnef.tgz", "--html", page)
    facts = json.loads(cli("quantize", net, *options, "--json").out)
    m, y = facts["weights"]
    assert (m["layer"], m["operation"], m["shape"]) == ("m", "matmul", [96, 64])
    assert (m["bytes_before"], m["bytes_after"]) == (96 * 64 * 4, 96 * 2 * 36)
    blocks = MATRIX.T.reshape(96, 2, 32)
    scales = np.abs(blocks).max(2, keepdims=True) / 127
    errors = np.round(blocks / scales) * scales.astype(np.float16) - blocks
    ratio = 10 * np.log10(np.sum(MATRIX**2) / np.sum(errors**2))
    assert m["signal_to_noise"] == pytest.approx(ratio, abs=0.01)
    assert y["quantized"], "its rows have 96 items"
    assert facts["blocks"] == "q8_0"
    assert facts["weight_bytes_before"] == (96 * 64 + 96 * 2) * 4
    shown = cli("quantize", net, *options[:-2])
    assert f"{m['signal_to_noise']:.1f} dB" in shown.out
    assert "tract 0.23 reads these blocks, but multiplies only those of q4_0" in shown.out
    assert f"{m['signal_to_noise']:.1f} dB" in page.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weights", "q4_0", "--data", IMAGES), "leave out --data"),
        (("--weights", "q4_0", "--observer", "entropy"), "leave out --observer"),
        (("--weights", "q4_0", "--signal-to-noise", "9"), "leave out --signal-to-noise"),
        (("--weights", "q4_0", "--mean", "0.5", "--equalise"), "leave out --mean, --equalise"),
        (("--weights", "q4_0", "--keep", "1%"), "leave out a bound in keep"),
        (("--weights", "q5_0"), "weights = 'q5_0': must be one of 'q4_0', 'q8_0'"),
        (("--weights", "q4_0", "--to", "nnef", "-o", "net"), "NNEF 1.0.2 has no weights in blocks"),
        ((), "--data is missing"),
    ],
)
def test_wrong_options_write_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = cli("quantize", DIGITS, "-o", "net.onnx", *options)
    assert shown.status in (1, 2)
    assert message in shown.err
    assert not [*tmp_path.iterdir()]
