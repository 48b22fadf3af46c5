"""Codes in tensor files stay codes, with the reals of the formulas of 4.9.5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.emit.convert.nnef_model import nnef_model
from nnefc.formats.tensor_file import write_tensor
from nnefc.ir import Graph
from nnefc.ops.core.known_items import known_items
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.pipeline import run_pass, run_pipeline
from nnefc.passes.quantize.recognise_quantizations import RecogniseQuantizations

Array = np.ndarray[Any, Any]

DOCUMENT = """version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1,6]);
    w = variable(shape = [4,6], label = 'w');
    v = variable(shape = [3,4], label = 'v');
    a = linear(x, w);
    y = linear(a, v);
}
"""
random = np.random.default_rng(3)


def codes(low: int, high: int, *shape: int) -> Array:
    items = random.integers(low, high + 1, shape)
    items.flat[:2] = low, high
    return items.astype(f"{'int' if low < 0 else 'uint'}{8 if high - low < 256 else 16}")


def imported(folder: Path, entry: str, w: Array, document: str = DOCUMENT, **options: Any) -> Graph:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(document)
    (folder / "graph.quant").write_text(f'"w": {entry};\n')
    write_tensor(folder / "w.dat", w)
    write_tensor(folder / "v.dat", np.ones((3, 4), np.float32))
    return nnefc.import_model(folder, **options)


def values(graph: Graph, name: str = "w") -> Array:
    graph.add_output(next(op.output for op in graph.ops if op.output.name == name), "items")
    variables = {key: v.data for key, v in graph.variables.items() if v.data is not None}
    x = np.zeros((1, 6), np.float32)
    return evaluate(graph, {"x": x}, variables).outputs["items"]


ZERO_POINT = "zero_point_linear_quantize(zero_point = {}, scale = {}, bits = {}, signed = {}, {})"
WIDE = "symmetric = false"


@pytest.mark.parametrize(
    ("entry", "low", "high", "scale", "zero"),
    [
        (ZERO_POINT.format(3, 0.5, 8, "true", WIDE), -128, 127, 0.5, 3),
        (ZERO_POINT.format(130, 0.25, 8, "false", WIDE), 0, 255, 0.25, 130),
        (ZERO_POINT.format(2, 0.25, 4, "true", WIDE), -8, 7, 0.25, 2),
        (ZERO_POINT.format(0, 0.25, 8, "true", "symmetric = true"), -127, 127, 0.25, 0),
        ("linear_quantize(min = -2.0, max = 1.984375, bits = 8)", 0, 255, 1 / 64, 128),
        ("linear_quantize(min = -2.0, max = 1.984375, bits = 8)", -128, 127, 1 / 64, 0),
        ("linear_quantize(min = 0.0, max = 0.9375, bits = 4)", 0, 15, 1 / 16, 0),
        (ZERO_POINT.format(3, 0.5, 16, "true", WIDE), -(2**15), 2**15 - 1, 0.5, 3),
        ("linear_quantize(min = -2.0, max = 13.99609375, bits = 12)", 0, 4095, 1 / 256, 512),
    ],
)  # fmt: skip
def test_codes_of_a_variable_stay(
    tmp_path: Path, entry: str, low: int, high: int, scale: float, zero: int
) -> None:
    w = codes(low, high, 4, 6)
    graph = imported(tmp_path, entry, w)
    data = graph.variables["w"].data
    assert data is not None
    assert data.dtype == w.dtype
    assert graph.variables["w"].type.dtype.numpy == w.dtype
    reals = (w.astype(np.float64) - zero) * scale
    np.testing.assert_array_equal(values(graph), reals)
    np.testing.assert_allclose(values(imported(tmp_path, entry, w, quantize=False)), reals)
    # the same document with the reals in its file
    np.testing.assert_allclose(values(imported(tmp_path, entry, reals.astype("f"))), reals)


def test_codes_of_channels(tmp_path: Path) -> None:
    w = codes(-128, 127, 4, 6)
    entry = ZERO_POINT.format("[0,1,2,3]", "[0.5,0.25,2.0,1.0]", 8, "true", WIDE)
    graph = imported(tmp_path, entry, w)
    scales, zeros = np.array([[0.5], [0.25], [2.0], [1.0]]), np.arange(4)[:, None]
    np.testing.assert_array_equal(values(graph), (w.astype(np.float64) - zeros) * scales)
    assert graph.variables["w"].type.dtype.numpy == np.int8


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        ("linear_quantize(min = -2.0, max = 2.5, bits = 8)", ""),
        ("linear_quantize(min = 0.0, max = 0.9375, bits = 4)", ""),  # codes above 15
        ("linear_quantize(min = 0.0, max = 4095.0, bits = 12)", ""),  # in files of 8 bits
        ("logarithmic_quantize(max = 4.0, bits = 8)", ""),
        ("linear_quantize(min = -2.0, max = 1.984375, bits = 8)", "update"),
    ],
)
def test_other_codes_are_decoded(tmp_path: Path, entry: str, change: str) -> None:
    document = DOCUMENT
    if change:
        document = document.replace(
            "a = lin", "b = mul(w, 2.0);\n    u = update(w, b);\n    a = lin"
        )
    graph = imported(tmp_path, entry, codes(0, 255, 4, 6), document)
    data = graph.variables["w"].data
    assert data is not None
    assert data.dtype == np.float32


def test_scales_of_channels_behind_codes_are_parts_of_their_scale(tmp_path: Path) -> None:
    """As `nnefc quantize` writes filters of NNEF 1.0.2; no item of a filter is a real."""
    document = """version 1.0; graph net( x ) -> ( y )
    {
        x = external(shape = [1,6,8,8]);
        w = variable(shape = [4,6,3,3], label = 'w');
        s = variable(shape = [4,1,1,1], label = 's');
        m = mul(w, s);
        y = conv(x, m, 0.0, padding = [(1,1),(1,1)]);
    }
    """
    tmp_path.mkdir(exist_ok=True)
    scales = np.array([0.5, 0.25, 2.0, 1.0], np.float32).reshape(4, 1, 1, 1)
    write_tensor(tmp_path / "s.dat", scales)
    entries = "linear_quantize(min = -128.0, max = 127.0, bits = 8);\n"
    entries += '"x": linear_quantize(min = -2.0, max = 1.984375, bits = 8);\n'
    entries += '"y": linear_quantize(min = -1024.0, max = 1016.0, bits = 8)'
    w = codes(-128, 127, 4, 6, 3, 3)
    graph = imported(tmp_path, entries, w, document)
    passed = graph.clone()
    run_pipeline(passed)
    assert [op.name for op in passed.ops if "conv" in op.name] == ["fused_code_conv"]
    model = nnefc.compile(graph, threads=1, strict_quantization=True)
    x = random.normal(size=(1, 6, 8, 8)).astype(np.float32)
    got = np.asarray(model(x))
    q = np.pad(
        np.clip(np.floor((x + 2) * 64 + 0.5), 0, 255) / 64 - 2, ((0, 0), (0, 0), (1, 1), (1, 1))
    )
    sums = np.zeros((1, 4, 8, 8))
    for i in range(3):
        for j in range(3):
            taps = w[:, :, i, j] * scales[:, :, 0, 0].astype(np.float64)
            sums[0] += np.einsum("oi,ihw->ohw", taps, q[0, :, i : i + 8, j : j + 8])
    want = np.clip(np.floor((sums + 1024) / 8 + 0.5), 0, 255) * 8 - 1024
    assert np.mean(got != want) <= 0.01
    assert np.abs(got - want).max() <= 8
    assert len(np.unique(got)) > 20


@pytest.mark.parametrize("bits", [8, 16])
def test_documents_are_written_with_ranges_of_reals(tmp_path: Path, bits: int) -> None:
    """Whoever reads them finds the codes again."""
    half = 1 << (bits - 1)
    entry, w = ZERO_POINT.format(3, 0.5, bits, "true", WIDE), codes(-half, half - 1, 4, 6)
    graph = imported(tmp_path / "net", entry, w)
    x = random.normal(size=(1, 6)).astype(np.float32)
    want = np.asarray(nnefc.compile(graph)(x))
    nnefc.save_archive(tmp_path / "graph.tgz", graph)
    nnefc.save_archive(tmp_path / "model.tgz", nnefc.compile(graph))
    nnef_model(graph).write(tmp_path / "written")
    for name in ("graph.tgz", "model.tgz", "written"):
        again = nnefc.import_model(tmp_path / name)
        data = again.variables["w"].data
        np.testing.assert_array_equal(data, (w.astype(np.float32) - 3) * 0.5)
        assert "linear_quantize" in [op.name for op in again.ops]
        folded = again.clone()
        run_pass(RecogniseQuantizations(), folded)
        (found,) = [op.inputs[0] for op in folded.ops if op.name == "dequantize"]
        items = known_items(found)
        assert items is not None
        # the zero of a range makes them unsigned
        assert len(np.unique(items.astype(np.int64) - w)) == 1
        np.testing.assert_allclose(np.asarray(nnefc.compile(again)(x)), want, rtol=1e-5)
