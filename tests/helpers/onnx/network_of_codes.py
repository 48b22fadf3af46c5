"""A quantized network whose operations all compute on codes, in blocks from end to end."""

from __future__ import annotations

from typing import Any

from tests.helpers.onnx.quantized_networks import Network

UNIT = 0.0213
RESULT = 0.0471


def network_of_codes(dtype: str) -> tuple[Any, tuple[int, ...]]:
    """Pooling, SiLU, a mean of windows, a concatenation, gates of channels and a global mean."""
    net = Network()
    zero = 128 if dtype == "uint8" else 0
    around: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    two: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], **around}
    x = net.rounded("x", UNIT, zero, dtype)
    x = net.rounded(net.conv(x, UNIT, (3, 32), **around), UNIT, zero - 9, dtype)
    x = net.rounded(net.node("MaxPool", x, **two), UNIT, zero - 9, dtype)
    gate = net.rounded(net.node("Sigmoid", x), 1 / 255, zero - 128, dtype)
    x = net.rounded(net.node("Mul", x, gate), 0.0161, zero - 90, dtype)
    a = net.rounded(net.conv(x, 0.0161, (32, 32), **around), 0.0197, zero + 3, dtype)
    mean: dict[str, Any] = {**two, "strides": [1, 1]}
    b = net.rounded(net.node("AveragePool", x, **mean), 0.0161, zero - 90, dtype)
    x = net.rounded(net.node("Concat", a, b, axis=1), 0.0211, zero, dtype)
    x = net.rounded(net.conv(x, 0.0211, (64, 32), 1), 0.0307, zero - 5, dtype)
    whole = net.rounded(net.node("GlobalAveragePool", x), 0.0113, zero + 20, dtype)
    x = net.rounded(net.node("Mul", x, whole), 0.0093, zero + 8, dtype)
    y = net.rounded(net.conv(x, 0.0093, (32, 24), 1, gain=4.0), RESULT, zero, dtype)
    shape = (1, 3, 24, 24)
    return net.model(shape, y=(y, "float32")), shape
