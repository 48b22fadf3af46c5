"""Codes with extreme scales, with zero points of 16 bits, and with limits that are not finite."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.frontends.tflite import test_lstm_codes as lstm
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)

RNG = np.random.default_rng(47)
I8, I16 = "INT8", "INT16"
Codes = dict[str, Any]


def codes(scale: float, zero: int = 0) -> Codes:
    return {"scale": (scale,), "zero_point": (zero,)}


def items(*shape: int) -> Array:
    return RNG.integers(-32768, 32768, shape).astype(np.int16)


def product(x: Array, given: Codes, result: Codes) -> Case:
    """Products of columns."""
    inputs = [x, Constant(np.array([0], np.int32))]
    return Case(
        "REDUCE_PROD", inputs, [((x.shape[1],), I8)], "ReducerOptions", {}, 2, {0: given, 2: result}
    )


def signs(count: int) -> Array:
    """Codes that stand for 1 and -1 with the scale 0.01."""
    return RNG.choice(np.array([100, -100], np.int8), (count, 20))


def convolution(scale: float) -> Case:
    weights = Constant(RNG.integers(-127, 128, (3, 1, 1, 2)).astype(np.int8))
    values = {"padding": 0, "stride_w": 1, "stride_h": 1}
    given = {0: codes(scale), 1: codes(0.01), 2: codes(0.1)}
    inputs = [items(1, 4, 4, 2), weights]
    return Case("CONV_2D", inputs, [((1, 4, 4, 3), I16)], "Conv2DOptions", values, 4, given)


def binary(name: str, *zeros: int) -> Case:
    given = {i: codes(*each) for i, each in enumerate(zip((2.0**-12, 2.0**-9, 2.0**-9), zeros))}
    values = {"fused_activation_function": 0}
    options = f"{name.title()}Options"
    inputs = [items(40, 9), items(40, 9)]
    return Case(name, inputs, [((40, 9), I16)], options, values, 2, given)


BEYOND = {0: codes(1e30), 1: codes(1e30), 2: codes(1e-30)}
"""Scales whose quotients float32 does not have."""


def joined() -> Case:
    x = RNG.integers(-128, 128, (2, 3)).astype(np.int8)
    return Case("CONCATENATION", [x, x], [((4, 3), I8)], "ConcatenationOptions", {}, 1, BEYOND)


def softmax() -> Case:
    given = {0: codes(0.001), 1: codes(2.0**-15)}
    return Case("SOFTMAX", [items()], [((), I16)], "SoftmaxOptions", {"beta": 1}, 3, given)


@pytest.mark.parametrize("count", [3, 200])
def test_products_of_many_codes_are_those_of_litert(count: int) -> None:
    """The scale to the power of the count is less than all reals of 64 bits."""
    case = product(signs(count), codes(0.01), codes(0.01, 3))
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    (actual,) = reference_results(content, inputs_of(case))
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("name", "sign"), [("ADD", 1), ("SUB", -1)])
@pytest.mark.parametrize("zeros", [(900, -300, 7), (900, 0, 0), (0, 0, 7)])
def test_sums_of_16_bits_heed_zero_points(
    name: str, sign: int, zeros: tuple[int, int, int]
) -> None:
    """LiteRT takes no zero points here: compared with sums of reals."""
    case = binary(name, *zeros)
    x, y = inputs_of(case)
    (actual,) = reference_results(content_of(case), [x, y])
    first, second = (x.astype(np.float64) - zeros[0]) / 8, y.astype(np.float64) - zeros[1]
    expected = np.clip(first + sign * second + zeros[2], -32768, 32767)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1)


@pytest.mark.parametrize("projection", [False, True])
def test_infinite_limits_of_cells_are_those_of_litert(projection: bool) -> None:
    case = lstm.layer(projection=projection, clip=math.inf)
    content = content_of(case)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    actual = reference_results(content, inputs_of(case))[0]
    assert len(np.unique(expected)) > 3
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (product(signs(20), codes(1e30), codes(1.0)), "of a requantization"),
        (product(signs(2), codes(1e5), codes(1.0)), "of a requantization with 15 bits"),
        (convolution(1e6), "of a requantization with 15 bits"),
        *(
            (binary("MUL", *zeros), "need zero points of 0")
            for zeros in ((32767, 0, 0), (0, 1, 0), (0, 0, 1))
        ),
        (lstm.layer(clip=math.nan), "the limits nan and nan"),
        (softmax(), "input has rank 0"),
        (replace(binary("MUL", 0, 0, 0), codes=BEYOND), "the factor inf of a requantization"),
        (replace(lstm.layer(), codes={**lstm.layer().codes, 13: codes(0.01, 200)}), "point 200 of"),
        (joined(), "the factor inf of a requantization"),
    ],
)
def test_errors_name_the_operator(case: Case, message: str) -> None:
    with pytest.raises(NnefError, match="operator 0") as caught:
        source_of(content_of(case)).graph({})
    assert message in str(caught.value)


def test_scales_below_the_limit_of_15_bits_are_computed() -> None:
    """Sums of 1 and 0 times a factor of 2**13."""
    weights = Constant(np.array([[[[1, 0]]]], np.int8))
    case = convolution(1.0)
    given = {0: codes(2.0**13), 1: codes(1.0), 2: codes(1.0)}
    x = np.zeros((1, 4, 4, 2), np.int16)
    x[0, 0, :, 0] = [-3, 1, 3, 5]
    case = replace(case, inputs=[x, weights], outputs=[((1, 4, 4, 1), I16)], codes=given)
    (actual,) = reference_results(content_of(case), inputs_of(case))
    np.testing.assert_allclose(actual[0, 0, :, 0], [-24576, 8192, 24576, 32767], rtol=0, atol=1)
