"""Depthwise convolutions whose input has a scale for each channel, as NNCF writes them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (onnxruntime is untyped)

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.pipeline import run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.quantized_networks import Network

Array = np.ndarray[Any, Any]

ONE = CompileConfig(1)
UNIT = 0.02


def _network(
    scales: Array, zeros: Array, group: int, outputs: int, high: float
) -> tuple[Any, Array]:
    """A pointwise convolution, a clamp to [-0.3, high], codes per channel, a depthwise one."""
    net, channels = Network(), len(scales)
    x = net.rounded("x", UNIT, 100, "uint8")
    x = net.conv(x, UNIT, (7, channels), 1, gain=0.4)
    x = net.node("Clip", x, net.constant(np.array(-0.3, "f4")), net.constant(np.array(high, "f4")))
    terms = net.constant(scales.astype("f4")), net.constant(zeros)
    x = net.node("QuantizeLinear", x, *terms, axis=1)
    x = net.node("DequantizeLinear", x, *terms, axis=1)
    padding = [1, 1, 1, 1]
    y = net.conv(x, UNIT, (channels, outputs), group=group, pads=padding, bias="reals")
    y = net.node("QuantizeLinear", y, *net.parameters(UNIT, 128, "uint8"))
    items = np.random.default_rng(3).normal(0, 60, (2, 7, 9, 8)).round() * UNIT
    return net.model((2, 7, 9, 8), y=(y, "uint8")), items.astype(np.float32)


def _scales(channels: int, low: float = 0.001, high: float = 0.004) -> Array:
    return np.random.default_rng(5).uniform(low, high, channels)


def _plain(model: Any, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run(["y"], {"x": x})[0])


def _reasons(model: Any, x: Array) -> set[str]:
    layers = FloatLayers()
    run_pipeline(graph_for(model, [x]), hook=layers)
    return {reason for op, reason in layers.found if op.name == "conv"}


def _check(model: Any, x: Array) -> None:
    """Codes differ from those of onnxruntime at most by one, in few places."""
    want = _plain(model, x)
    got = compile_graph(graph_for(model, [x]), ONE).run({"x": x})["y"]
    assert len(np.unique(want)) > 50
    difference = np.abs(got.astype(int) - want)
    assert difference.max() <= 1
    assert np.mean(difference) <= 0.001


@pytest.mark.parametrize("outputs", [24, 48])
@pytest.mark.parametrize("zero", [0, 77])
@pytest.mark.parametrize("high", [1.2, 0.2])
def test_depthwise(outputs: int, zero: int, high: float) -> None:
    """Bounds that are one code in all channels are part of the rounding; others stay a launch."""
    model, x = _network(_scales(24), np.full(24, zero, "u1"), 24, outputs, high)
    assert not _reasons(model, x)
    lowered = lower_graph(graph_for(model, [x]), ONE)
    families = [k.family for each in lowered.launches for k in each.kernels]
    convolutions = [family for family in families if family.startswith("convolution.")]
    assert len(convolutions) >= 2
    assert all("codes" in family for family in convolutions)
    _check(model, x)


def test_depthwise_in_int8() -> None:
    model, x = _network(_scales(24, 0.002, 0.008), np.full(24, -20, "i1"), 24, 24, 9)
    assert not _reasons(model, x)
    _check(model, x)


def test_zero_points_differ() -> None:
    """Outside its border an input has one zero point."""
    model, x = _network(_scales(24), np.arange(24, dtype="u1"), 24, 24, 1.2)
    assert _reasons(model, x) == {"zero points of the input differ"}
    _check(model, x)


def test_scales_vary_along_sums() -> None:
    model, x = _network(_scales(24), np.zeros(24, "u1"), 12, 24, 1.2)
    assert _reasons(model, x) == {"scales of the input vary along a sum"}
    _check(model, x)
