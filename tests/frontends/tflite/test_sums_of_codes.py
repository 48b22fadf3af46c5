"""Sums of codes in floats, alone and behind convolutions, against gemmlowp's functions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats.tflite.model import Quantization, Tensor
from nnefc.frontends.tflite.fixed_point import quantize_multiplier
from nnefc.frontends.tflite.float_codes import sum_factors
from tests.helpers.gemmlowp import multiply_by_quantized_multiplier
from tests.helpers.tflite.one_operator import litert_results
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

Array = np.ndarray[Any, Any]
Codes = tuple[float, int]
"""A scale and a zero point."""


@np.vectorize
def _rescaled(x: int, multiplier: int, shift: int) -> int:
    return multiply_by_quantized_multiplier(int(x), int(multiplier), int(shift))


def _sum(x: Array, y: Array, codes: list[Codes], sign: int, bounds: tuple[int, int]) -> Array:
    """The sum of int8 codes by the steps of LiteRT's reference kernel."""
    twice = 2.0 * max(codes[0][0], codes[1][0])
    total: Any = 0
    for each, (scale, zero), factor in zip((x, y), codes, (1, sign)):
        shifted = (np.arange(-128, 128) - zero) << 20
        of_code = _rescaled(shifted, *quantize_multiplier(scale / twice))
        total = total + factor * of_code[each + 128]
    scale, zero = codes[2]
    scaled = _rescaled(total, *quantize_multiplier(twice / (2.0**20 * scale)))
    return np.clip(scaled + zero, *bounds)


def _tensor(codes: Codes, type_: str = "INT8") -> Tensor:
    quantization = Quantization((codes[0],), (codes[1],), 0)
    return Tensor(0, "t", type_, (4,), (), None, quantization)


def _factors(codes: list[Codes], activation: int, sign: int) -> tuple[float, float] | None:
    x, y, output = map(_tensor, codes)
    return sum_factors(x, y, output, activation, sign)


@pytest.mark.parametrize(("sign", "activation"), [(1, 0), (1, 1), (-1, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_those_in_fixed_point(seed: int, sign: int, activation: int) -> None:
    """All pairs of codes."""
    codes = _random_codes(np.random.default_rng(seed))
    factors = _factors(codes, activation, sign)
    assert factors is not None
    x, y = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    low = codes[2][1] if activation else -128
    want = _sum(x, y, codes, sign, (low, 127))
    a, b = map(np.float32, factors)
    first, second = (np.float32(each - zero) for each, (_, zero) in zip((x, y), codes))
    got = np.clip(np.rint(first * a + sign * (second * b)) + codes[2][1], low, 127)
    np.testing.assert_array_equal(got, want)


def _random_codes(rng: np.random.Generator) -> list[Codes]:
    return [(float(np.float32(rng.uniform(0.01, 0.1))), int(rng.integers(-9, 9))) for _ in range(3)]


def test_most_sums_have_factors() -> None:
    rng = np.random.default_rng(3)
    found = [_factors(_random_codes(rng), 0, 1) for _ in range(20)]
    assert found.count(None) < 5


def test_sums_of_wide_codes_have_none() -> None:
    wide = _tensor((0.1, 0), "INT16")
    assert sum_factors(wide, wide, wide, 0, 1) is None


def _network(codes: list[Codes], activation: int, w: Array, bias: Array) -> bytes:
    """A convolution with 1 x 1 taps, to whose result its input is added."""
    channels = len(w)
    shape = (1, 6, 5, channels)
    given, made, result = ({"scale": (s,), "zero_point": (z,)} for s, z in codes)
    scales = [0.01 + 0.001 * i for i in range(channels)]
    of_filter = {"scale": tuple(scales), "zero_point": (0,) * channels}
    of_bias = {"scale": tuple(s * codes[0][0] for s in scales), "zero_point": (0,) * channels}
    tensors = [
        tensor(shape, "INT8", "x", quantization=given),
        tensor(w.shape, "INT8", "w", 1, quantization=of_filter),
        tensor(bias.shape, "INT32", "b", 2, quantization=of_bias),
        tensor(shape, "INT8", "c", quantization=made),
        tensor(shape, "INT8", "y", quantization=result),
    ]
    convolution = {"stride_w": 1, "stride_h": 1, "padding": 1}
    operators = [
        operator(0, [0, 1, 2], [3], "Conv2DOptions", **convolution),
        operator(1, [3, 0], [4], "AddOptions", fused_activation_function=activation),
    ]
    codes_ = [operator_code("CONV_2D", 3), operator_code("ADD", 2)]
    graph = subgraph(tensors, operators, [0], [4])
    return write(model(codes_, [graph], [w.tobytes(), bias.tobytes()]))


@pytest.mark.parametrize("activation", [0, 1])
def test_a_convolution_adds_its_input(activation: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    channels = 21
    w = rng.integers(-127, 128, (channels, 1, 1, channels)).astype(np.int8)
    bias = rng.integers(-999, 999, channels).astype(np.int32)
    codes: list[Codes] = [(0.0513, -11), (0.1432, 7), (0.1111, -20)]
    content = _network(codes, activation, w, bias)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    x = rng.integers(-128, 128, (1, 6, 5, channels)).astype(np.int8)
    compiled = nnefc.compile(path, threads=1)
    got = compiled(x)
    (scale, zero), (made, point), _ = codes
    sums = (x.astype(np.int64) - zero) @ w[:, 0, 0].T.astype(np.int64) + bias
    pairs = [
        quantize_multiplier(scale * float(np.float32(0.01 + 0.001 * i)) / made)
        for i in range(channels)
    ]
    first = np.clip(_rescaled(sums, *np.array(pairs).T) + point, -128, 127)
    low = codes[2][1] if activation else -128
    want = _sum(first, x.astype(np.int64), [codes[1], codes[0], codes[2]], 1, (low, 127))
    assert len(np.unique(want)) > 80
    np.testing.assert_array_equal(got, want)
    if find_spec("ai_edge_litert") is not None:
        np.testing.assert_array_equal(got, litert_results(content, [[x]])[0][0])
    # no launch adds; one may change the sign of the codes of x
    assert sum(each.kernel.startswith("elementwise") for each in compiled.launches) <= 1
