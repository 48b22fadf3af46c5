"""Small quantized models have the results of onnxruntime, whatever passes do with their codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results
from tests.helpers.onnx.quantized_networks import Network

Array = np.ndarray[Any, Any]
CODES = np.arange(256, dtype=np.float32)
RANDOM = np.random.default_rng(5)


def weights(net: Network, *shape: int) -> str:
    codes = net.constant(net.random.integers(-128, 128, shape).astype("i1"))
    return net.node("DequantizeLinear", codes, *net.parameters(0.01, 0, "int8"))


def residual(net: Network) -> str:
    """The codes of computed items are read by a product and by the addition behind it."""
    x = net.rounded(net.node("Sin", "x"), 0.01, 3, "int8")
    return net.node("Add", net.node("MatMul", x, weights(net, 16, 16)), x)


def moved_bias(begin: int, end: int, step: int, count: int) -> Callable[[Network], str]:
    """A bias that is a slice of other codes."""

    def build(net: Network) -> str:
        bias = net.constant(net.random.integers(-20000, 20000, count).astype("i4"))
        bias = net.node("DequantizeLinear", bias, *net.parameters(0.0002, 0, "int32"))
        slices = (net.constant(np.array([n])) for n in (begin, end, 0, step))
        bias = net.node("Slice", bias, *slices)
        x = net.rounded("x", 0.02, 128, "uint8")
        y = net.node("Conv", x, weights(net, 16, 8, 3, 3), bias)
        return net.rounded(y, 0.2, 100, "uint8")

    return build


def fraction(net: Network) -> str:
    """A step function of items that float32 rounds up to a whole number: 10 * 0.7."""
    x = net.rounded("x", 0.7, 0, "uint8")
    return net.rounded(net.node("Sub", x, net.node("Floor", x)), 1 / 256, 0, "uint8")


def thresholded(net: Network) -> str:
    x = net.rounded("x", 0.05, 128, "uint8")
    return net.rounded(net.node("ThresholdedRelu", x, alpha=1.0), 0.05, 0, "uint8")


def many_sums(net: Network) -> str:
    """More operations in a row than Python calls functions in each other."""
    y = net.rounded("x", 0.02, 128, "uint8")
    ones = net.constant(np.ones(1, "u1"))
    for _ in range(450):
        one = net.node("DequantizeLinear", ones, *net.parameters(0.001, 0, "uint8"))
        y = net.node("Add", y, one)
    return net.rounded(y, 0.05, 100, "uint8")


def large_scales(operator: str, scale: float, result: float) -> Callable[[Network], str]:
    """A product of scales, or their quotient by the scale of the result, exceeds float32.

    The reals of x are 0 or small multiples of its scale; the products are 0 or exceed all codes.
    """

    def build(net: Network) -> str:
        shape = (16, 8, 1, 1) if operator == "Conv" else (16, 16)
        codes = net.constant(net.random.integers(1, 128, shape).astype("i1"))
        w = net.node("DequantizeLinear", codes, *net.parameters(scale, 0, "int8"))
        large = net.node("Mul", "x", net.constant(np.array(scale, "f4")))
        x = net.rounded(large, scale, 128, "uint8")
        return net.rounded(net.node(operator, x, w), result, 9, "uint8")

    return build


IMAGE = np.eye(6).reshape(1, 1, 6, 6).repeat(8, 1)
MATRIX = np.eye(16)[:6] * (np.arange(6)[:, None] % 2)
CASES: dict[str, tuple[Callable[[Network], str], Array]] = {
    "residual of a product": (residual, RANDOM.normal(0, 1, (5, 16))),
    "half of a bias": (moved_bias(16, 32, 1, 32), RANDOM.normal(0, 1, (1, 8, 6, 6))),
    "reversed bias": (moved_bias(-1, -99, -1, 16), RANDOM.normal(0, 1, (1, 8, 6, 6))),
    "fraction": (fraction, CODES * np.float32(0.7)),
    "thresholded": (thresholded, (CODES - 128) * np.float32(0.05)),
    "many sums": (many_sums, CODES[:4]),
    "large scales of a convolution": (large_scales("Conv", 1e30, 1.0), IMAGE),
    "large factor of a convolution": (large_scales("Conv", 1e15, 1e-25), IMAGE),
    "large scales of a product": (large_scales("MatMul", 1e30, 1.0), MATRIX),
    "large factor of a product": (large_scales("MatMul", 1e15, 1e-25), MATRIX),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnxruntime(case: str, tmp_path: Path) -> None:
    build, items = CASES[case]
    x, net = items.astype(np.float32), Network()
    proto = net.model(x.shape, y=(build(net), "float32"))
    onnx.save(proto, tmp_path / "net.onnx")  # pyright: ignore[reportUnknownMemberType]
    (want,) = onnxruntime_results(proto, [x])
    got = np.asarray(nnefc.compile(tmp_path / "net.onnx")(x))
    np.testing.assert_allclose(got, want, 0, 1e-5 * np.abs(want).max())
