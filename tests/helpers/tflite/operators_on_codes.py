"""Models of one operator on codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.helpers.tflite.one_operator import Case, Constant

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(28)


def codes(type_: str, *shape: int) -> Array:
    limits = np.iinfo(type_)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(type_)


def scaled(*scales: float, zero: int = 0) -> dict[str, Any]:
    return {"scale": scales, "zero_point": (zero,) * len(scales), "quantized_dimension": 0}


def conv() -> Case:
    """A scale per channel; the border must have the zero point."""
    scales = [0.004, 0.007, 0.011, 0.003, 0.02]
    inputs = [
        codes("int8", 1, 9, 8, 4),
        Constant(codes("int8", 5, 3, 2, 4)),
        Constant(RNG.integers(-3000, 3000, 5).astype(np.int32)),
    ]
    quantization = {
        0: scaled(0.03, zero=-9),
        1: scaled(*scales),
        2: scaled(*(each * 0.03 for each in scales)),
        3: scaled(0.1, zero=11),
    }
    values = {"padding": 0, "stride_w": 2, "stride_h": 1, "fused_activation_function": 1}
    outputs = [((1, 9, 4, 5), "INT8")]
    return Case("CONV_2D", inputs, outputs, "Conv2DOptions", values, 3, quantization)


def linear() -> Case:
    inputs = [codes("uint8", 19, 20), Constant(codes("uint8", 6, 20))]
    quantization = {0: scaled(0.02, zero=120), 1: scaled(0.01, zero=131), 2: scaled(0.1, zero=128)}
    outputs = [((19, 6), "UINT8")]
    return Case("FULLY_CONNECTED", inputs, outputs, "FullyConnectedOptions", {}, 4, quantization)


def add() -> Case:
    inputs = [codes("uint8", 3, 5, 7), codes("uint8", 5, 7)]
    quantization = {0: scaled(0.02, zero=120), 1: scaled(0.03, zero=131), 2: scaled(0.04, zero=128)}
    return Case("ADD", inputs, [((3, 5, 7), "UINT8")], "AddOptions", {}, 2, quantization)


def mul() -> Case:
    inputs = [codes("int8", 3, 5, 7), codes("int8", 3, 5, 7)]
    quantization = {0: scaled(0.02, zero=3), 1: scaled(0.03, zero=-5), 2: scaled(0.06, zero=-8)}
    return Case("MUL", inputs, [((3, 5, 7), "INT8")], "MulOptions", {}, 2, quantization)


def linear_of_16_bits() -> Case:
    inputs = [codes("int16", 19, 20), Constant(codes("int8", 6, 20))]
    quantization = {0: scaled(0.0002), 1: scaled(0.01), 2: scaled(0.001)}
    outputs = [((19, 6), "INT16")]
    return Case("FULLY_CONNECTED", inputs, outputs, "FullyConnectedOptions", {}, 4, quantization)


def hybrid() -> Case:
    """Reals with weights of codes, which are rounded in each call.

    LiteRT's product is not exact with weights of -128.
    """
    weights = np.maximum(codes("int8", 6, 20), -127)
    inputs = [RNG.normal(size=(3, 20)).astype(np.float32), Constant(weights)]
    outputs = [((3, 6), "FLOAT32")]
    options = "FullyConnectedOptions"
    return Case("FULLY_CONNECTED", inputs, outputs, options, {}, 4, {1: scaled(0.01)})


def halves(type_: str = "INT8") -> Case:
    """Rounded reals: exact halves of a unit, their neighbours in float32, and large numbers."""
    exact = np.arange(-300, 300, dtype=np.float32) / 4
    x = np.concatenate([exact, *(np.nextafter(exact, np.float32(each)) for each in (-1e3, 1e3))])
    x = np.append(x, np.array([1e9, -1e9, -0.0], np.float32))
    given = {1: scaled(0.5, zero=3)}
    return Case("QUANTIZE", [x], [(x.shape, type_)], "QuantizeOptions", {}, 1, given)
