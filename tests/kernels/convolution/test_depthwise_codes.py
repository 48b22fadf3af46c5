"""Convolution of blocked codes with groups within blocks, against NumPy in int64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType
from nnefc.ops.internal.requantization import (
    FloatScale,
    Input,
    Requantization,
    requantization_expression,
)
from tests.helpers.examples import examples
from tests.helpers.kernels.code_convolutions import (
    CODES,
    LANES,
    SUMS,
    Case,
    cases_of,
    per_channel,
    result,
    terms,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = [(n, n * m) for n in (1, 1, 2, 4, 8) for m in (1, 1, 2, 4) if LANES % (n * m) == 0]
    inputs, outputs = draw(st.sampled_from([each for each in sizes if each[0] < LANES]))
    groups = draw(st.integers(2, 2 * LANES // inputs + 1))
    dtype = draw(st.sampled_from([CODES, np.dtype(np.int16)]))
    return draw(cases_of(groups, inputs, outputs, draw(st.booleans()), dtype))


@examples(0.4)
@given(cases(), st.integers(1, 2))
def test_sums_are_exact(case: Case, threads: int) -> None:
    got = result(case, SUMS, threads=threads)
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))


@pytest.mark.parametrize(
    ("extent", "size", "stride"),
    [(112, 3, 1), (113, 3, 2), (29, 5, 1), (28, 5, 2), (37, 7, 1), (14, 3, 1), (7, 3, 1)],
)
def test_maps_of_networks(extent: int, size: int, stride: int) -> None:
    rng = np.random.default_rng(extent)
    limits = np.iinfo(CODES)
    channels = 2 * LANES + 3
    x = rng.integers(limits.min, limits.max + 1, (2, channels, 9, extent)).astype(CODES)
    w = rng.integers(-128, 128, (channels, 1, size, size)).astype(np.int8)
    pad = size // 2
    case = Case(
        *(x, w, limits.min + 100, np.zeros((), np.int8), ((pad, pad),) * 2),
        *((stride,) * 2, (1, 1), channels),
    )
    bias, factor, _ = terms(case)
    low, high, zero = limits.min + 3, limits.max - 9, limits.max - 100
    requantization = Requantization(
        FloatScale(Input(2)), DType(CODES.name), int(low), int(high), int(zero), Input(1)
    )
    got = [
        result(case, requantization_expression(requantization), bias, factor, threads=threads)
        for threads in (1, 2)
    ]
    sums = (case.sums() + per_channel(bias)).astype(np.int32)
    product = sums.astype(np.float32) * per_channel(factor)
    expected = np.clip(np.rint(product.astype(np.float64)) + zero, low, high)
    assert np.mean((expected > low) & (expected < high)) > 0.5
    for each in got:
        np.testing.assert_array_equal(each, expected)
