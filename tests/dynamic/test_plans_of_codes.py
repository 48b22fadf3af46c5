"""Symbolic plans of quantized networks compute in integers, with the bits of known shapes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from tests.helpers.onnx.quantized_networks import Network

Array = np.ndarray[Any, Any]

UNIT = 0.02
SIZES = ((33, 40), (24, 57), (50, 31))
SMALL = (5, 7)
"""Windows reach beyond it; it needs a plan of its own."""


def sized(document: Any, height: int | str, width: int | str) -> Any:
    """The document for images of a size; extents are numbers or names."""
    changed = onnx.ModelProto.FromString(document.SerializeToString())
    dims = changed.graph.input[0].type.tensor_type.shape.dim[2:]
    for dim, extent in zip(dims, (height, width), strict=True):
        dim.ClearField("dim_value")
        setattr(dim, "dim_param" if isinstance(extent, str) else "dim_value", extent)
    return changed


def compared(net: Network, folder: Path, **outputs: tuple[str, str]) -> None:
    """Compare results for images of several sizes with those of models for one size."""
    document = net.model((2, 3, 1, 1), **outputs)
    onnx.save(sized(document, "H", "W"), folder / "varying.onnx")
    model = nnefc.compile(folder / "varying.onnx", threads=2, strict_quantization=True)
    assert isinstance(model, DynamicModel)
    model.save(folder / "net.nnefc", shapes={"H": 33, "W": 40})
    loaded = nnefc.load(folder / "net.nnefc")
    for size in (*SIZES, SMALL):
        x = (np.random.default_rng(size).normal(0, 60, (2, 3, *size)).round() * UNIT).astype("f4")
        onnx.save(sized(document, *size), folder / "fixed.onnx")
        fixed = nnefc.compile(folder / "fixed.onnx", threads=1, strict_quantization=True)
        expected = fixed.run({"x": x})
        for name, got in model.run({"x": x}).items():
            want = expected[name]
            assert len(np.unique(want)) > 50
            np.testing.assert_array_equal(got, want)
            if size != SMALL:
                np.testing.assert_array_equal(loaded.run({"x": x})[name], want)
        plans = model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]
        assert plans < len(SIZES) or size == SMALL


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_residual_network(dtype: str, tmp_path: Path) -> None:
    """Strides, dilations, residuals, depthwise convolutions, maxima and means of codes."""
    net, zero = Network(), 128 if dtype == "uint8" else 0
    around: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    two: dict[str, Any] = {"strides": [2, 2], **around}
    x = net.rounded("x", UNIT, zero, dtype)
    x = net.rounded(net.conv(x, UNIT, (3, 24), **two), UNIT, zero - 9, dtype)
    x = net.rounded(net.node("MaxPool", x, kernel_shape=[3, 3], **around), UNIT, zero - 9, dtype)
    left = net.rounded(net.conv(x, UNIT, (24, 24), **around), UNIT, zero + 9, dtype)
    x = net.rounded(net.node("Relu", net.node("Add", left, x)), UNIT, zero - 100, dtype)
    x = net.rounded(net.conv(x, UNIT, (24, 24), group=24, **two), UNIT, zero - 7, dtype)
    wide = net.conv(x, UNIT, (24, 24), dilations=[4, 4], pads=[4, 4, 4, 4])
    wide = net.rounded(wide, UNIT, zero + 5, dtype)
    mean = net.node("AveragePool", x, kernel_shape=[3, 3], **around)
    mean = net.rounded(mean, UNIT, zero - 7, dtype)
    x = net.rounded(net.node("Concat", wide, mean, axis=1), UNIT, zero + 3, dtype)
    whole = net.rounded(net.node("GlobalAveragePool", x), UNIT / 4, zero, dtype)
    y = net.conv(net.rounded(net.node("Mul", x, whole), UNIT, zero, dtype), UNIT, (48, 30), 1)
    compared(net, tmp_path, y=(x, "float32"), z=(y, "float32"))


def test_groups_and_wide_filters(tmp_path: Path) -> None:
    """Groups of 4, 12 and 3 channels, filters that exceed int8, and a deconvolution."""
    net = Network()
    around: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    x = net.rounded("x", UNIT, 128, "uint8")
    x = net.rounded(net.conv(x, UNIT, (3, 24), 1), UNIT, 120, "uint8")
    x = net.rounded(net.conv(x, UNIT, (24, 24), group=6, **around), UNIT, 120, "uint8")
    x = net.rounded(net.conv(x, UNIT, (24, 36), group=2, **around), UNIT, 130, "uint8")
    w = net.random.integers(0, 256, (36, 3, 3, 3)).astype("u1")
    w[:, :, 1] = 100
    scale, zero = net.constant(np.array(0.003, "f4")), net.constant(np.array(100, "u1"))
    filter_ = net.node("DequantizeLinear", net.constant(w), scale, zero)
    x = net.rounded(net.node("Conv", x, filter_, group=12, **around), UNIT, 130, "uint8")
    w = net.random.integers(0, 256, (36, 20, 4, 4)).astype("u1")
    w[5:, :, 2] = 100
    scale = net.constant(np.array(0.0005, "f4"))
    filter_ = net.node("DequantizeLinear", net.constant(w), scale, zero)
    y = net.node("ConvTranspose", x, filter_, strides=[2, 2], **around)
    compared(net, tmp_path, y=(net.rounded(y, UNIT, 127, "uint8"), "float32"))
