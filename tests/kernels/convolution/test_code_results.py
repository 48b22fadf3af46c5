"""Requantizations in the registers of convolutions of codes, against NumPy and gemmlowp."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    Residual,
    SumOfCodes,
    ToFloat,
    requantization_expression,
)
from tests.helpers.gemmlowp import (
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tests.helpers.kernels.code_convolutions import (
    CODES,
    LANES,
    Array,
    Case,
    per_channel,
    result,
    terms,
)

KINDS = pytest.mark.parametrize(
    "kind", ["direct", "overlapping", "following", "depthwise", "winograd3", "winograd4"]
)


def _usual(kind: str, seed: int = 5) -> Case:
    """A window of 3 x 3 with padding and two or three blocks of outputs, the last not full.

    That of overlapping tiles has 1 x 1; pixels of all tensors follow each other, or do not.
    """
    rng = np.random.default_rng(seed)
    limits = np.iinfo(CODES)
    columns = 6 if kind == "following" else 7
    x = rng.integers(limits.min, limits.max + 1, (1, 19, 9, columns)).astype(CODES)
    depthwise = kind == "depthwise"
    size = 1 if kind in ("overlapping", "following") else 3
    shape = (19, 1, size, size) if depthwise else (2 * LANES + 5, 19, size, size)
    w = rng.integers(-128, 128, shape).astype(np.int8)
    zero, groups = np.zeros((), np.int8), 19 if depthwise else 1
    tile = int(kind[-1]) if kind.startswith("winograd") else 0
    x_zero, ones = limits.min + 100, (1, 1)
    border = size // 2, size // 2
    return Case(x, w, x_zero, zero, (border, border), ones, ones, groups, tile=tile)


def _halves_up(x: Array) -> Array:
    return np.floor(x + 0.5)


@KINDS
@pytest.mark.parametrize(
    ("rounding", "nearest"),
    [("round_even", np.rint), ("round", _halves_up)],
    ids=["even", "up"],
)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8], ids=str)
def test_float_scales(
    rounding: Any, nearest: Callable[[Array], Array], dtype: DType, kind: str
) -> None:
    case = _usual(kind)
    bias, factor, _ = terms(case)
    if dtype is DType.INT8:
        # small sums, every other of which is a tie
        x = case.x % 3 + (case.x_zero - 1)
        case = replace(case, x=x.astype(CODES), filter=np.sign(case.filter))
        bias, factor = np.sign(bias), np.full_like(factor, 0.5)
    codes = np.iinfo(dtype.numpy)
    low, high, zero = int(codes.min) + 3, int(codes.max) - 9, int(codes.max) - 100
    added = dtype is DType.UINT8
    offset = (7 * np.sin(np.arange(bias.size, dtype=np.float32))).reshape(bias.shape) * added
    scale = FloatScale(Input(2), rounding, Input(3) if added else 0)
    requantization = Requantization(scale, dtype, low, high, zero, Input(1))
    known = [bias, factor, *([offset] if added else [])]
    got = result(case, requantization_expression(requantization), *known)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    product = sums.astype(np.float32) * per_channel(factor) + per_channel(offset)
    expected = np.clip(nearest(product.astype(np.float64)) + zero, low, high)
    assert np.mean((expected > low) & (expected < high)) > 0.5
    assert (expected == high).any() or (product % 1 == 0.5).any()
    # halves go up in the precision of float32
    is_near = (np.abs(product % 1 - 0.5) < 2.0**-14) & (product % 1 != 0.5) & (rounding == "round")
    assert is_near.mean() < 1e-3
    np.testing.assert_array_equal(got[~is_near], expected.astype(dtype.numpy)[~is_near])
    np.testing.assert_allclose(got, expected, atol=1)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("direct", DType.UINT8), ("depthwise", DType.INT8), ("winograd3", DType.INT8)],
)
def test_results_saturate_to_their_whole_type(kind: str, dtype: DType) -> None:
    """Without narrower bounds, nothing but the conversion to bytes clamps them."""
    case = _usual(kind)
    bias, factor, _ = terms(case)
    codes = np.iinfo(dtype.numpy)
    low, high, zero = int(codes.min), int(codes.max), int(codes.max) - 100
    scale = FloatScale(Input(2), "round_even", 0)
    requantization = Requantization(scale, dtype, low, high, zero, Input(1))
    got = result(case, requantization_expression(requantization), bias, 4 * factor)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    product = sums.astype(np.float32) * per_channel(4 * factor)
    expected = np.clip(np.rint(product.astype(np.float64)) + zero, low, high)
    assert np.mean(expected == low) > 0.1 < np.mean(expected == high)
    assert np.mean((expected > low) & (expected < high)) > 0.1
    np.testing.assert_array_equal(got, expected)


@KINDS
def test_fixed_point(kind: str) -> None:
    case = _usual(kind, 7)
    bias, factor, shift = terms(case)
    multiplier = (factor * 2.0 ** np.ceil(-np.log2(factor)) * 2**30).astype(np.int32)
    left = (shift % 2).astype(np.int32)
    scale = FixedPoint(Input(2), Input(3), Input(4))
    requantization = Requantization(scale, DType.INT8, -128, 100, -5, Input(1))
    expression = requantization_expression(requantization)
    got = result(case, expression, bias, multiplier, left, shift)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)

    want = _scaled(sums, *map(per_channel, (multiplier, left, shift)))
    expected = np.clip(want - 5, -128, 100)
    assert 0.5 < np.mean((expected > -128) & (expected < 100)) < 1
    np.testing.assert_array_equal(got, expected)


@KINDS
@pytest.mark.parametrize(
    ("low", "ties"),
    [(-128, False), (-128, True), (-5, True)],
    ids=["signed", "signed_ties", "positive_ties"],
)
def test_fixed_point_with_right_shifts(low: int, ties: bool, kind: str) -> None:
    """With one rounding, unless sums are negative and their first rounding is a tie."""
    case = _usual(kind, 7)
    bias, factor, _ = terms(case)
    multipliers, powers = np.frexp(factor)
    multiplier = np.floor(multipliers.astype(np.float64) * 2**31 + 0.5).astype(np.int32)
    multiplier.flat[1] = 0
    if ties:
        multiplier.flat[::5] = 1 << 30
    right = -powers.astype(np.int32)
    assert right.min() > 0
    scale = FixedPoint(Input(2), 0, Input(3))
    requantization = Requantization(scale, DType.INT8, low, 100, -5, Input(1))
    got = result(case, requantization_expression(requantization), bias, multiplier, right)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    want = _scaled(sums, per_channel(multiplier), 0, per_channel(right))
    expected = np.clip(want - 5, low, 100)
    assert 0.1 < np.mean((expected > low) & (expected < 100)) < 1
    np.testing.assert_array_equal(got, expected)


@KINDS
@pytest.mark.parametrize("left", [0, 1])
def test_residuals_of_codes_in_fixed_point(left: int, kind: str) -> None:
    """Codes in fixed point are reals again, to which those of others are added."""
    case = _usual(kind, 7)
    bias, factor, _ = terms(case)
    fractions, powers = np.frexp(factor)
    multiplier = np.floor(fractions.astype(np.float64) * 2**31 + 0.5).astype(np.int32)
    right = left - powers.astype(np.int32)
    scale = FixedPoint(Input(2), left, Input(3))
    first = Requantization(scale, DType.INT8, -100, 90, -5, Input(1))
    residual = Residual(Input(4), DType.INT8, -38, 0.75)
    result_ = SumOfCodes(first, 0.625, residual, DType.INT8, -121, 119, 7)
    limits, shape = np.iinfo(np.int8), case.sums().shape
    other = np.random.default_rng(9).integers(limits.min, limits.max + 1, shape).astype(np.int8)
    expression = requantization_expression(result_)
    got = result(case, expression, bias, multiplier, right, residual=other)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    codes = _scaled(sums, per_channel(multiplier), left, per_channel(right))
    total = np.clip(codes, -95, 95) * 0.625 + (other.astype(np.float64) + 38) * 0.75
    expected = np.clip(np.rint(total) + 7, -121, 119)
    assert (total % 1 == 0.5).any()
    assert 0.3 < np.mean((expected > -121) & (expected < 119)) < 1
    np.testing.assert_array_equal(got, expected)


@np.vectorize
def _scaled(x: int, multiplier: int, left: int, right: int) -> int:
    """Sums in fixed point, by gemmlowp's functions."""
    high = saturating_rounding_doubling_high_mul(int(x) << int(left), int(multiplier))
    return rounding_divide_by_pot(high, int(right))


@KINDS
def test_products_may_exceed_int32(kind: str) -> None:
    case = _usual(kind)
    scale = FloatScale(2.0**20)
    requantization = Requantization(scale, DType.UINT8, 9, 200, 100)
    got = result(case, requantization_expression(requantization))
    expected = np.clip(case.sums() * 2.0**20 + 100, 9, 200)
    assert set(np.unique(expected)) >= {9, 200}
    np.testing.assert_array_equal(got, expected)


@KINDS
def test_floats_of_sums(kind: str) -> None:
    case = _usual(kind, 8)
    bias, factor, _ = terms(case)
    got = result(case, requantization_expression(ToFloat(Input(1))), factor)
    expected = case.sums().astype(np.float32) * per_channel(factor)
    np.testing.assert_array_equal(got, expected)
    clamped = ToFloat(0.25, Input(1), 9, -2e4, 2e5)
    got = result(case, requantization_expression(clamped), bias)
    expected = (case.sums() + per_channel(bias)).astype(np.float32) * np.float32(0.25) + 9
    assert expected.min() < -2e4
    expected = np.clip(expected, -2e4, 2e5)
    np.testing.assert_array_equal(got, expected)


@KINDS
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8], ids=str)
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize(
    ("rounding", "nearest"),
    [("round_even", np.rint), ("round", _halves_up)],
    ids=["even", "up"],
)
def test_residuals(
    rounding: Any,
    nearest: Callable[[Array], Array],
    rounds: bool,
    dtype: DType,
    kind: str,
) -> None:
    """Codes of a result and of others are added as reals; ties are rounded."""
    case = _usual(kind)
    bias, factor, _ = terms(case)
    codes = np.iinfo(dtype.numpy)
    shape = case.sums().shape
    other = np.random.default_rng(9).integers(codes.min, codes.max + 1, shape).astype(dtype.numpy)
    residual = Residual(Input(3), dtype, int(codes.min) + 90, 0.75)
    if rounds:
        scale = FloatScale(Input(2), rounding)
        first = Requantization(scale, DType.UINT8, 3, 250, 101, Input(1))
        result_ = SumOfCodes(first, 0.625, residual, DType.UINT8, 7, 249, 99)
    else:
        scale = FloatScale(Input(2), rounding, residual=residual)
        result_ = Requantization(scale, DType.UINT8, 7, 249, 99, Input(1))
    expression = requantization_expression(result_)
    got = result(case, expression, bias, factor, residual=other)
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    product = sums.astype(np.float32) * per_channel(factor)
    if rounds:
        product = (np.clip(nearest(product.astype(np.float64)) + 101, 3, 250) - 101) * 0.625
    added = (other.astype(np.float32) - residual.zero) * np.float32(0.75)
    total = product + added
    expected = np.clip(nearest(total.astype(np.float64)) + 99, 7, 249)
    assert np.mean((expected > 7) & (expected < 249)) > 0.5
    assert not rounds or (total % 1 == 0.5).any()
    # halves go up in the precision of float32
    is_exact = np.isclose(total * 8 % 1, 0) | (np.abs(total % 1 - 0.5) > 2.0**-14)
    is_exact |= rounding == "round_even"
    assert is_exact.mean() > 0.99
    np.testing.assert_array_equal(got[is_exact], expected[is_exact])
    np.testing.assert_allclose(got, expected, atol=1)
