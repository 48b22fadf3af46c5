"""Direct convolution of blocked codes against NumPy in int64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Blocked, DType, Expression, Op, TensorType
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.ops.core.window_arithmetic import convolution_window
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    ToFloat,
    requantization_expression,
)
from nnefc.ops.tools.verify import rule_problems
from tests.helpers.examples import examples
from tests.helpers.gemmlowp import (
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tests.helpers.kernels.blocked_op import BlockedGraph, Halo, constant, halo

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]

CODES = np.dtype(host().codes)
LANES = lanes_of("int32")


@dataclass(frozen=True)
class Case:
    """A convolution; x and filter have extremes among random codes."""

    x: Array
    filter: Array
    x_zero: int
    filter_zero: Array
    padding: tuple[tuple[int, int], ...]
    stride: Dims
    dilation: Dims
    groups: int

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "border": "constant",
            "padding": self.padding,
            "stride": self.stride,
            "dilation": self.dilation,
            "groups": self.groups,
        }

    @property
    def reach(self) -> Halo:
        dims = self.x.shape, self.filter.shape
        return convolution_window(*dims, self.attributes, reverse=False).clipped().reach()

    def sums(self) -> Array:
        """The sums in int64, tap by tap."""
        x = self.x.astype(np.int64) - self.x_zero
        x = np.pad(x, ((0, 0), (0, 0), *self.padding))
        w = self.filter.astype(np.int64) - self.filter_zero
        taps = w.shape[2:]
        spans = [(t - 1) * d + 1 for t, d in zip(taps, self.dilation)]
        extents = [(n - a) // s + 1 for n, a, s in zip(x.shape[2:], spans, self.stride)]
        x = x.reshape(len(x), self.groups, -1, *x.shape[2:])
        w = w.reshape(self.groups, -1, *w.shape[1:])
        total: Any = 0
        for tap in itertools.product(*map(range, taps)):
            firsts = [t * d for t, d in zip(tap, self.dilation)]
            ends = [f + (n - 1) * s + 1 for f, n, s in zip(firsts, extents, self.stride)]
            window = tuple(map(slice, firsts, ends, self.stride))
            total += np.einsum("ngi...,goi->ngo...", x[:, :, :, *window], w[..., *tap])
        return total.reshape(len(x), -1, *extents)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    taps = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 3)) for _ in taps)
    padding = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in taps)
    spans = [(t - 1) * d + 1 - sum(p) for t, d, p in zip(taps, dilation, padding)]
    spatial = [max(a, 1) + draw(st.integers(0, 9 // rank)) for a in spans]
    groups = draw(st.sampled_from([1, 1, 2]))
    per_group = st.sampled_from([LANES, 2 * LANES]) if groups > 1 else st.integers(1, 3 * LANES)
    inputs, outputs = draw(per_group), draw(per_group)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    limits = np.iinfo(CODES)
    extreme = draw(st.booleans())
    low, high = (0, 2) if extreme else (limits.min, limits.max + 1)
    x = rng.integers(low, high, (draw(st.integers(1, 2)), groups * inputs, *spatial))
    x = np.where(x > 0, limits.max, limits.min) if extreme else x
    w = rng.integers(-128, 128, (groups * outputs, inputs, *taps))
    zeros = np.zeros((groups * outputs, *[1] * (rank + 1)), np.int64)
    if draw(st.booleans()):
        w //= 2
        zeros += rng.integers(-63, 64, zeros.shape)
    return Case(
        x.astype(CODES),
        w.astype(np.int8),
        draw(st.sampled_from([limits.min, 0, limits.max, 3])),
        zeros.astype(np.int8),
        padding,
        tuple(draw(st.integers(1, 3)) for _ in taps),
        dilation,
        groups,
    )


def result(
    case: Case, expression: Expression, *others: Array, halo_: Halo | None = None, threads: int = 1
) -> Array:
    """The result of the compiled operation on blocked tensors; others are known."""
    g = BlockedGraph(4 if case.x.shape[1] <= 4 else LANES)
    blocked = g.input(case.x, case.reach if halo_ is None else halo_, fill=case.x_zero)
    known = [case.filter, np.array(case.x_zero, CODES), case.filter_zero, *others]
    dtype = expression.steps[-1].dtype if expression.steps else DType.INT32
    rank = case.x.ndim
    layout = Blocked(LANES, halo(rank), dtype.itemsize)
    type_ = TensorType(dtype, case.sums().shape, layout)
    operands = [blocked, *(constant(g.graph, x) for x in known)]
    attributes = {**case.attributes, "expression": expression}
    op = g.graph.insert(Op("fused_code_conv", operands, attributes, [type_]))
    assert rule_problems(op) == []
    (got,) = g.run(op.output, threads=threads)
    return got


SUMS = Expression((DType.INT32,), (), (0,))


@examples(0.4)
@given(cases(), st.data())
def test_sums_are_exact(case: Case, data: st.DataObject) -> None:
    none = tuple((0, 0) for _ in case.stride)
    around = data.draw(st.sampled_from([case.reach, none]))
    got = result(case, SUMS, halo_=around, threads=data.draw(st.integers(1, 2)))
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))


def _usual(seed: int = 5) -> Case:
    """A window of 3 x 3 with padding and three blocks of outputs, the last not full."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(CODES)
    x = rng.integers(limits.min, limits.max + 1, (1, 19, 9, 7)).astype(CODES)
    w = rng.integers(-128, 128, (2 * LANES + 5, 19, 3, 3)).astype(np.int8)
    zero = np.zeros((), np.int8)
    return Case(x, w, limits.min + 100, zero, ((1, 1), (1, 1)), (1, 1), (1, 1), 1)


def _terms(case: Case) -> tuple[Array, Array, Array]:
    """Random bias, factor and shift per channel."""
    rng = np.random.default_rng(6)
    channels = len(case.filter)
    bias = rng.integers(-(1 << 20), 1 << 20, (1, channels)).astype(np.int32)
    factor = (2.0 ** rng.uniform(-16, -9, (1, channels))).astype(np.float32)
    return bias, factor, rng.integers(9, 16, (1, channels)).astype(np.int32)


def _per_channel(x: Array) -> Array:
    return x.reshape(1, -1, 1, 1)


def _halves_up(x: Array) -> Array:
    return np.floor(x + 0.5)


@pytest.mark.parametrize(
    ("rounding", "nearest"),
    [("round_even", np.rint), ("round", _halves_up)],
    ids=["even", "up"],
)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8], ids=str)
def test_float_scales(rounding: Any, nearest: Callable[[Array], Array], dtype: DType) -> None:
    case = _usual()
    bias, factor, _ = _terms(case)
    if dtype is DType.INT8:
        # small sums, every other of which is a tie
        x = case.x % 3 + (case.x_zero - 1)
        case = replace(case, x=x.astype(CODES), filter=np.sign(case.filter))
        bias, factor = np.sign(bias), np.full_like(factor, 0.5)
    codes = np.iinfo(dtype.numpy)
    low, high, zero = int(codes.min) + 3, int(codes.max) - 9, int(codes.max) - 100
    requantization = Requantization(
        FloatScale(Input(2), rounding), dtype, low, high, zero, Input(1)
    )
    got = result(case, requantization_expression(requantization), bias, factor)
    sums = (case.sums() + _per_channel(bias)).astype(np.int32)
    product = sums.astype(np.float32) * _per_channel(factor)
    expected = np.clip(nearest(product.astype(np.float64)) + zero, low, high)
    assert np.mean((expected > low) & (expected < high)) > 0.5
    assert (expected == high).any() or (product % 1 == 0.5).any()
    np.testing.assert_array_equal(got, expected.astype(dtype.numpy))


def test_fixed_point() -> None:
    case = _usual(7)
    bias, factor, shift = _terms(case)
    multiplier = (factor * 2.0 ** np.ceil(-np.log2(factor)) * 2**30).astype(np.int32)
    left = (shift % 2).astype(np.int32)
    scale = FixedPoint(Input(2), Input(3), Input(4))
    requantization = Requantization(scale, DType.INT8, -128, 100, -5, Input(1))
    expression = requantization_expression(requantization)
    got = result(case, expression, bias, multiplier, left, shift)
    sums = (case.sums() + _per_channel(bias)).astype(np.int32)

    def scaled(x: int, multiplier: int, left: int, right: int) -> int:
        high = saturating_rounding_doubling_high_mul(x << left, multiplier)
        return rounding_divide_by_pot(high, right)

    each = np.vectorize(scaled, [np.int64])
    want = each(sums, *map(_per_channel, (multiplier, left, shift)))
    expected = np.clip(want - 5, -128, 100)
    assert 0.5 < np.mean((expected > -128) & (expected < 100)) < 1
    np.testing.assert_array_equal(got, expected)


def test_floats_of_sums() -> None:
    case = _usual(8)
    bias, factor, _ = _terms(case)
    got = result(case, requantization_expression(ToFloat(Input(1))), factor)
    expected = case.sums().astype(np.float32) * _per_channel(factor)
    np.testing.assert_array_equal(got, expected)
    got = result(case, requantization_expression(ToFloat(0.25, Input(1))), bias)
    expected = (case.sums() + _per_channel(bias)).astype(np.float32) * np.float32(0.25)
    np.testing.assert_array_equal(got, expected)
