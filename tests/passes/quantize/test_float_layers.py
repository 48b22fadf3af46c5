"""Layers of codes that are computed on reals: errors with `strict_quantization`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.command_line import Cli

Array = np.ndarray[Any, Any]

BODY = """version 1.0;
graph net(x, w) -> (y, z)
{
    x = external(shape = [1,4,8,8]);
    w = external(shape = [8,4,3,3]);
    a = conv(x, w, 0.0);
    b = softmax(a, axes = [1]);
    c = conv(b, w2, 0.0);
    y = relu(c);
    z = softmax(c, axes = [1]);
}
""".replace("    c = conv", "    w2 = variable(shape = [8,8,1,1], label = 'w2');\n    c = conv")
RANGE = "linear_quantize(min = {}, max = {}, bits = 8);"


def document(folder: Path, **entries: tuple[float, float]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(BODY)
    lines = [f'"{name}": {RANGE.format(*ends)}' for name, ends in entries.items()]
    (folder / "graph.quant").write_text("\n".join([*lines, ""]))
    random = np.random.default_rng(3)
    items = random.normal(size=(8, 8, 1, 1), scale=0.3).astype(np.float32)
    nnefc.write_tensor(folder / "w2.dat", items)
    return folder


CODES = {"x": (-2.0, 1.984375), "w": (-1.0, 0.9921875), "w2": (-1.0, 0.9921875)}


def test_every_layer_is_listed_with_reason_and_place(tmp_path: Path) -> None:
    ranges = {**CODES, "a": (-2.0, 1.984375), "b": (0.0, 0.996), "c": (-2.0, 2.5)}
    path = document(tmp_path / "net", **ranges)
    with pytest.raises(NnefError) as raised:
        nnefc.compile(path, strict_quantization=True)
    found = [(e.rule, e.message, Path(e.file or "").name, e.line) for e in raised.value.errors]
    rule = "quantization/float"
    assert found == [
        (
            rule,
            "linear_quantize 'c' is computed in floats: 0 is no code of the range",
            "graph.quant",
            6,
        ),
        (rule, "conv 'a_raw' is computed in floats: the filter is computed", "graph.nnef", 6),
        (
            rule,
            "softmax 'b_raw' is computed in floats: there is no kernel for codes",
            "graph.nnef",
            7,
        ),
    ]


def test_results_in_reals_are_allowed(tmp_path: Path) -> None:
    """The document itself computes the last softmax on reals."""
    path = document(tmp_path / "net", b=(0.0, 0.996), w2=CODES["w2"], c=(-2.0, 1.984375))
    random = np.random.default_rng(1)
    x, w = (random.normal(size=s).astype(np.float32) for s in ((1, 4, 8, 8), (8, 4, 3, 3)))
    strict = nnefc.compile(path, strict_quantization=True)
    for found, expected in zip(strict(x, w), nnefc.compile(path)(x, w), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_model_cache_does_not_hide_errors(tmp_path: Path) -> None:
    path = document(tmp_path / "net", **CODES)
    for _ in range(2):
        nnefc.compile(path)
    with pytest.raises(NnefError, match="filter is computed"):
        nnefc.compile(path, strict_quantization=True)


def test_models_of_reals_have_no_such_layers(tmp_path: Path) -> None:
    nnefc.compile(document(tmp_path / "net"), strict_quantization=True)
    with pytest.raises(NnefError, match="strict_quantization = 1: must be True or False"):
        nnefc.compile(tmp_path / "net", strict_quantization=1)  # pyright: ignore[reportArgumentType]


def test_the_command_line_has_the_option(cli: Cli, tmp_path: Path) -> None:
    shown = cli("compile", document(tmp_path / "net", **CODES), "--strict-quantization")
    assert shown.status == 1
    assert "conv 'a' is computed in floats: the filter is computed" in shown.err
    assert "[quantization/float]" in shown.err
