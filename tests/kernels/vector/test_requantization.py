"""Requantizations by kernels and by the reference, against exact formulas and onnxruntime."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Step, TensorType
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    ToFloat,
    requantization_expression,
)
from nnefc.ops.tools.reference import evaluate_expression
from tests.helpers.examples import examples
from tests.helpers.gemmlowp import (
    INT32,
    multiply_by_quantized_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tests.helpers.kernels.compiled_op import compute, evaluate
from tests.helpers.onnx.onnxruntime_oracle import node_model, onnxruntime_results

Array = np.ndarray[Any, Any]

HALF = 1 << 30
EXTREMES = [
    *(INT32[0], INT32[0] + 1, INT32[0] + 2, -HALF - 1, -HALF, -HALF + 1, -4097, -4, -3, -2, -1, 0),
    *(1, 2, 3, 4, 4097, 1 << 24, (1 << 24) + 1, HALF - 1, HALF, HALF + 1, INT32[1] - 1, INT32[1]),
]
INTEGERS = st.integers(*INT32) | st.sampled_from(EXTREMES) | st.integers(-70_000, 70_000)
COUNT = 1000
"""Items of one call, so that random examples need no further kernels."""


def int32(values: list[int]) -> Array:
    """Values repeated to `COUNT` items."""
    return np.resize(np.array(values, np.int32), COUNT)


def by_reference(expression: Expression, *inputs: Array) -> Array:
    """The result of an expression by the reference interpreter."""
    dtype = expression.steps[-1].dtype
    (y,) = evaluate_expression(expression, list(inputs), [TensorType(dtype, inputs[0].shape)])
    return y.astype(dtype.numpy)


def by_kernel(expression: Expression, *inputs: Array) -> Array:
    """The result of an expression by a kernel."""
    type_ = TensorType(expression.steps[-1].dtype, inputs[0].shape)
    (y,) = compute("fused", inputs, [type_], {"expression": expression})
    return y


def check(expression: Expression, expected: list[int], *inputs: Array) -> None:
    """Compare the kernel and the reference with codes."""
    wide = [x.astype(np.int64 if x.dtype.kind == "i" else np.float64) for x in inputs]
    assert by_reference(expression, *wide).tolist() == expected
    assert by_kernel(expression, *inputs).tolist() == expected


@examples(0.3)
@given(st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=20))
def test_fixed_point_instructions_are_those_of_gemmlowp(pairs: list[tuple[int, int]]) -> None:
    pairs += [(a, b) for a in EXTREMES for b in EXTREMES]
    x, y = (int32([pair[i] for pair in pairs]) for i in range(2))
    kinds = [("doubling_high_product", saturating_rounding_doubling_high_mul)]
    kinds.append(("rounding_shift", lambda a, b: rounding_divide_by_pot(a, b & 31)))
    steps = [Step(name, (0, 1), DType.INT32) for name, _ in kinds]
    results = evaluate(steps, [2, 3], x, y)
    both = list(zip(x.tolist(), y.tolist(), strict=True))
    for (name, oracle), got, step in zip(kinds, results, steps, strict=True):
        expected = [oracle(a, b) for a, b in both]
        assert got.tolist() == expected, name
        expression = Expression((DType.INT32,) * 2, (step,), (2,))
        again = by_reference(expression, x.astype(np.int64), y.astype(np.int64))
        assert again.tolist() == expected, name


FIXED = requantization_expression(
    Requantization(FixedPoint(Input(2), Input(3), Input(4)), DType.INT8, -120, 127, 3, Input(1))
)


@examples(0.3)
@given(
    st.lists(
        st.tuples(INTEGERS, st.integers(HALF, INT32[1]), st.integers(-31, 8)),
        min_size=1,
        max_size=40,
    )
)
def test_fixed_point_is_that_of_tflite(terms: list[tuple[int, int, int]]) -> None:
    terms += [(x, HALF, n) for x in (-6, -5, -3, -1, 1, 3, 5, 6) for n in (-1, -2)]
    sums, multipliers, shifts = (int32([term[i] for term in terms]) for i in range(3))
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    scaled = [
        multiply_by_quantized_multiplier(*each)
        for each in zip(sums.tolist(), multipliers.tolist(), shifts.tolist(), strict=True)
    ]
    inside = [y <= INT32[1] - 3 for y in scaled]  # TFLite's addition of the zero point may overflow
    expected = [min(max(y + 3, -120), 127) if ok else -120 for y, ok in zip(scaled, inside)]
    bias = int32([17, -9])
    with np.errstate(over="ignore"):
        check(FIXED, expected, sums - bias, bias, multipliers, left, right)


def _codes(sums: list[int], factors: list[float], *, up: bool) -> list[int]:
    """Codes of uint8 with zero point 7, by exact arithmetic on float32 products."""
    codes: list[int] = []
    for x, factor in zip(sums, factors, strict=True):
        exact = Fraction(float(np.float32(np.float32(x) * np.float32(factor))))
        whole = (exact + Fraction(1, 2)).__floor__() if up else round(exact)
        codes.append(min(max(whole + 7, 0), 200))
    return codes


FACTORS = st.sampled_from([0.5, 0.25, 2.0**-20, 1.0, 3.0e-5]) | st.floats(
    2.0**-40, 4, width=32, exclude_min=True
)


@examples(0.3)
@given(st.lists(st.tuples(INTEGERS, FACTORS), min_size=1, max_size=40))
def test_float_scale_rounds_the_product(terms: list[tuple[int, float]]) -> None:
    terms += [(x, 0.5) for x in range(-20, 20)]
    sums = int32([x for x, _ in terms])
    factors = np.resize(np.array([f for _, f in terms], np.float32), COUNT)
    for up in (False, True):
        scale = FloatScale(Input(1), "round" if up else "round_even")
        expression = requantization_expression(Requantization(scale, DType.UINT8, 0, 200, 7))
        expected = _codes(sums.tolist(), factors.tolist(), up=up)
        assert by_kernel(expression, sums, factors).tolist() == expected


def test_to_float() -> None:
    sums, bias = int32(EXTREMES), int32([5, -5])
    with np.errstate(over="ignore"):
        expected = (sums + bias).astype(np.float32) * np.float32(0.1)
    got = by_kernel(requantization_expression(ToFloat(0.1, Input(1))), sums, bias)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8], ids=str)
def test_float_scale_is_that_of_onnxruntime(dtype: DType) -> None:
    """`QLinearConv` with inputs of 0 requantizes its bias."""
    rng = np.random.default_rng(3)
    sums = int32([*EXTREMES, *rng.integers(-3000, 3000, 400), *rng.integers(*INT32, 400)])
    scales = np.resize(np.array([0.5, 0.25, 0.013, 0.75, 1e-6, 2.0], np.float32), COUNT)
    x_scale, y_scale, zero = np.float32(0.7), np.float32(0.35), dtype.numpy.type(5)
    filters = np.ones((COUNT, 1, 1, 1), np.int8)
    inputs: list[Array | None] = [np.full((1, 1, 1, 1), zero), np.array(x_scale), np.array(zero)]
    inputs += [filters, scales, np.zeros(COUNT, np.int8), np.array(y_scale), np.array(zero), sums]
    model = node_model("QLinearConv", inputs, known=range(1, 9))
    (expected,) = onnxruntime_results(model, [np.full((1, 1, 1, 1), zero)])
    factors = x_scale * scales / y_scale
    codes = np.iinfo(dtype.numpy)
    requantization = Requantization(
        FloatScale(Input(1)), dtype, int(codes.min), int(codes.max), int(zero)
    )
    got = by_kernel(requantization_expression(requantization), sums, factors)
    np.testing.assert_array_equal(got, expected.reshape(-1))
