"""Ranges of 16 bits of NNEF documents: codes of int16, by the formula of 4.9.5 in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats.tensor_file import write_tensor
from nnefc.frontends.nnef import import_text
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.pipeline import run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers

Array = np.ndarray[Any, Any]
HALF = 1 << 15

DOCUMENT = """version 1.0; extension KHR_enable_operator_expressions;
graph net( x ) -> ( conv, depth, groups, turned, flat, most, mean, plane, sum, square, act )
{
    x = external(shape = [6,8,20,18]);
    w = variable(shape = [16,8,3,3], label = 'w');
    d = variable(shape = [8,1,3,3], label = 'd');
    g = variable(shape = [12,4,1,3], label = 'g');
    t = variable(shape = [8,6,3,3], label = 't');
    m = variable(shape = [400,2880], label = 'm');
    conv = relu(conv(x, w, 0.25, padding = [(1,1),(1,1)], stride = [1,2]));
    depth = conv(x, d, 0.0, padding = [(1,1),(0,0)], groups = 0);
    groups = conv(x, g, -0.5, padding = [(0,0),(0,0)], groups = 2, dilation = [1,2]);
    turned = deconv(x, t, 0.0, padding = [(1,1),(1,1)], stride = [2,2]);
    flat = linear(reshape(x, shape = [6,2880]), m, 0.0);
    most = max_pool(x, size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore');
    mean = avg_pool(x, size = [1,1,3,3], stride = [1,1,1,1], border = 'ignore');
    plane = mean_reduce(x, axes = [2,3]);
    around = max_pool(x, size = [1,1,3,3], border = 'ignore');
    sum = add(x, around);
    square = mul(x, x);
    act = sigmoid(x);
}
"""
CODES: dict[str, tuple[int, ...]] = {
    "w": (16, 8, 3, 3),
    "d": (8, 1, 3, 3),
    "g": (12, 4, 1, 3),
    "t": (8, 6, 3, 3),
    "m": (400, 2880),
}
SCALE, WEIGHT = 1.1 * 2.0**-12, 0.013


def by_pytorch(x: Array, weights: dict[str, Array]) -> dict[str, Array]:
    """The results before they are rounded, in float64."""
    torch: Any = pytest.importorskip("torch")
    f: Any = torch.nn.functional
    v, (w, d, g, t, m) = torch.from_numpy(x), map(torch.from_numpy, weights.values())
    found = {
        "conv": f.relu(f.conv2d(v, w, padding=1, stride=(1, 2)) + 0.25),
        "depth": f.conv2d(v, d, padding=(1, 0), groups=8),
        "groups": f.conv2d(v, g, dilation=(1, 2), groups=2) - 0.5,
        "turned": f.conv_transpose2d(v, t, padding=1, stride=2),
        "flat": f.linear(v.reshape(6, -1), m),
        "most": f.max_pool2d(v, 2),
        "mean": f.avg_pool2d(v, 3, 1, 1, count_include_pad=False),
        "plane": v.mean((2, 3), keepdim=True),
        "sum": v + f.max_pool2d(v, 3, 1, 1),
        "square": v * v,
        "act": torch.sigmoid(v),
    }
    return {name: each.numpy() for name, each in found.items()}


def levels(x: Array, low: float, high: float) -> Array:
    """The formula of 4.9.5."""
    codes = np.floor((np.clip(x, low, high) - low) / (high - low) * 65535 + 0.5)
    return codes / 65535 * (high - low) + low


def ends(scale: float, zero: int) -> tuple[float, float]:
    return (-HALF - zero) * scale, (HALF - 1 - zero) * scale


def entry(scale: float, zero: int, *, zero_point: bool, signed: bool) -> str:
    if not zero_point:
        low, high = ends(scale, zero)
        return f"linear_quantize(min = {low!r}, max = {high!r}, bits = 16)"
    point = zero if signed else zero + HALF
    sign = f"signed = {str(signed).lower()}, symmetric = false"
    return f"zero_point_linear_quantize(zero_point = {point}, scale = {scale!r}, bits = 16, {sign})"


@pytest.mark.parametrize(
    ("zero", "kind"),
    [
        (0, {"zero_point": False, "signed": True}),
        (-5000, {"zero_point": True, "signed": True}),
        (7000, {"zero_point": True, "signed": False}),
    ],
    ids=["range", "signed", "unsigned"],
)
def test_layers_are_computed_in_integers(tmp_path: Path, zero: int, kind: dict[str, bool]) -> None:
    random = np.random.default_rng(8)
    x = random.normal(size=(6, 8, 20, 18)).astype(np.float32)
    codes = {name: random.integers(-127, 128, shape) for name, shape in CODES.items()}
    reals = levels(x.astype(float), *ends(SCALE, zero))
    wanted = by_pytorch(reals, {name: each * WEIGHT for name, each in codes.items()})
    # with odd ratios of scales, no result lies between two codes
    scales = {name: float(np.abs(each).max()) / 25011 for name, each in wanted.items()}
    (tmp_path / "graph.nnef").write_text(DOCUMENT)
    lines = {name: entry(scale, zero, **kind) for name, scale in {"x": SCALE, **scales}.items()}
    for name, each in codes.items():
        write_tensor(tmp_path / f"{name}.dat", each.astype(np.int8))
        low, high = -128 * WEIGHT, 127 * WEIGHT
        lines[name] = f"linear_quantize(min = {low!r}, max = {high!r}, bits = 8)"
    (tmp_path / "graph.quant").write_text("".join(f'"{n}": {e};\n' for n, e in lines.items()))
    found: Any = nnefc.compile(tmp_path, keep=False, strict_quantization=True)(x)
    graph = nnefc.import_model(tmp_path)
    exact = evaluate(graph, {"x": x}).outputs
    for (name, want), got in zip(exact.items(), found, strict=True):
        formula = levels(wanted[name], *ends(scales[name], zero))
        for each in (want, formula):
            units = np.rint(np.abs(got.astype(float) - each) / scales[name])
            assert units.max() <= 1, name
            assert units.mean() <= 0.001, name
        assert len(np.unique(formula)) > min(300, want.size - 2), name


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = conv(a, {w});", ""),
        (
            "y = conv(a, linear_quantize(w, -4.0, 11.999755859375, bits = 16));",
            "weights of 16 bits have a zero point",
        ),
        ("y = softmax(a);", "there is no kernel for codes"),
        ("y = multilinear_upsample(a, factor = [2,2]);", "codes have 16 bits"),
    ],
)
def test_others_compute_in_floats_and_tell_why(body: str, reason: str) -> None:
    rounded = "linear_quantize({}, -8.0, 7.999755859375, bits = 16)"
    weights = rounded.format("w")
    graph = import_text(
        "version 1.0; extension KHR_enable_fragment_definitions; graph net(x) -> (z) {"
        "x = external(shape = [1,2,5,5]); w = variable(shape = [2,2,1,1], label = 'w');"
        f"a = {rounded.format('x')}; {body.format(w=weights)} z = {rounded.format('y')}; }}"
    )
    graph.variables["w"].data = np.linspace(-1, 1, 4, dtype=np.float32).reshape(2, 2, 1, 1)
    floats = FloatLayers()
    run_pipeline(graph, hook=floats)
    assert [why for _, why in floats.found] == ([reason] if reason else [])
