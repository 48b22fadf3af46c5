"""Winograd's convolution of codes against NumPy in int64: sums are exact."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc.lower.convolution.winograd as lowering
from nnefc.kernels.convolution.winograd_matrices import (
    Matrix,
    inverse_and_shift,
    points,
    whole_filter_matrix,
    whole_input_matrix,
    whole_output_matrix,
    whole_scale,
)
from nnefc.ops.core.winograd_tiles import CODE_RANGE, code_pieces, code_tiles
from tests.helpers.examples import examples
from tests.helpers.kernels.code_convolutions import CODES, LANES, SUMS, Case, result

LIMITS = np.iinfo(CODES)
ONES = (1, 1)
TILES = (2, 3, 4)
"""Of windows of 3 x 3 taps."""
WINDOWS = [(3, 3), (1, 3), (3, 1), (3,), (5, 5), (3, 7), (1, 7), (7, 1), (4,), (1, 5), (11, 1)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Windows over lines, planes and volumes; x and filter may be extremes."""
    rank = draw(st.integers(1, 3))
    taps = [draw(st.sampled_from([1, 3, 3, 4, 5, 7])) for _ in range(rank)]
    taps[draw(st.integers(max(rank - 2, 0), rank - 1))] = draw(st.sampled_from([3, 5, 7, 9]))
    stride = [1] * rank
    if rank == 3:
        taps[0], stride[0] = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    dilation = [draw(st.sampled_from([1, 1, 2, 3])) for _ in taps]
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in taps)
    spans = [(t - 1) * d + 1 - sum(p) for t, d, p in zip(taps, dilation, padding)]
    spatial = [max(a, 1) + draw(st.integers(0, 14 // rank)) for a in spans]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    inputs, outputs = draw(st.integers(1, 3 * LANES)), draw(st.integers(1, 3 * LANES))
    extreme = draw(st.booleans())
    shape = (draw(st.integers(1, 2)), inputs, *spatial)
    x = rng.integers(LIMITS.min, LIMITS.max + 1, shape)
    w = rng.integers(-128, 128, (outputs, inputs, *taps))
    if extreme:
        x, w = np.where(x % 2, LIMITS.max, LIMITS.min), np.where(w % 2, 127, -128)
    zero = np.array(draw(st.sampled_from([0, 0, 5, 127, -128])), np.int8)
    sizes = np.abs(w - int(zero)).sum(tuple(range(1, w.ndim)))
    return Case(
        x.astype(CODES),
        w.astype(np.int8),
        draw(st.sampled_from([LIMITS.min, 0, LIMITS.max, 3])),
        zero,
        padding,
        tuple(stride),
        tuple(dilation),
        1,
        tile=draw(st.sampled_from(code_tiles(taps[-2:], int(sizes.max())))),
    )


@examples(0.3)
@given(cases(), st.data())
def test_sums_are_exact(case: Case, data: st.DataObject) -> None:
    got = result(case, SUMS, threads=data.draw(st.integers(1, 2)))
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))


@pytest.mark.parametrize(("apart", "capacity"), [(True, 7), (False, 7), (False, 60)])
def test_blocks_of_tiles(apart: bool, capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "block_size", lambda *_: (apart, capacity))  # pyright: ignore
    case = _constant(3, 20, 2 * LANES + 3, (17, 14), 4)
    rng = np.random.default_rng(3)
    x = rng.integers(LIMITS.min, LIMITS.max + 1, case.x.shape).astype(CODES)
    w = rng.integers(-128, 128, case.filter.shape).astype(np.int8)
    case = replace(case, x=x, filter=w, x_zero=LIMITS.min + 77)
    got = result(case, SUMS, threads=2)
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("code", [LIMITS.min, LIMITS.max])
@pytest.mark.parametrize("weight", [-128, 127])
def test_all_products_are_extreme(weight: int, code: int, tile: int) -> None:
    case = _constant(1, 40, LANES, (11, 6), tile, code, weight)
    got = result(case, SUMS)
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_are_exact(sign: int, tile: int) -> None:
    """Sums of sizes of weights up to the bound; the next larger one is refused."""
    bound = _bound(tile)
    inputs = -(-bound // (9 * 127))
    case = _with_sum(_constant(1, inputs, 1, (6, 4), tile, LIMITS.max, sign), bound, sign)
    for code in (LIMITS.min, LIMITS.max):
        some = replace(case, x=np.full_like(case.x, code), x_zero=LIMITS.min)
        got = result(some, SUMS)
        np.testing.assert_array_equal(got, some.sums().astype(np.int32))
    with pytest.raises(AssertionError):
        result(_with_sum(case, bound + 1, sign), SUMS)


@pytest.mark.parametrize("taps", WINDOWS)
def test_tiles_are_exact_up_to_the_bound(taps: tuple[int, ...]) -> None:
    pair = (1, *code_pieces(taps))[-2:]
    for tile in code_tiles(taps, 0):
        most = ((1 << 32 - inverse_and_shift(tile, (pair[0], pair[1]))[1]) - 1) // CODE_RANGE
        assert tile in code_tiles(taps, most)
        assert tile not in code_tiles(taps, most + 1)
    assert code_tiles((2, 3), 1) == code_tiles((1, 1), 1) == []


def test_windows_have_large_tiles() -> None:
    pieces = [*map(code_pieces, [(3, 3), (1, 7), (5, 5), (9, 1), (2, 4)])]
    assert pieces == [(3, 3), (1, 4), (3, 3), (3, 1), (2, 3)]
    largest = [max(code_tiles(taps, 0)) for taps in [(3, 3), (1, 7), (5, 5), (9, 1)]]
    assert largest == [4, 5, 4, 6]


@pytest.mark.parametrize("taps", WINDOWS)
def test_transforms_fit_into_16_bits(taps: tuple[int, ...]) -> None:
    """Of all codes, and of all weights less a zero point."""
    pieces = [t for t in code_pieces(taps) if t > 1]
    for largest in code_tiles(taps, 0):
        filters = [whole_filter_matrix(largest, t) for t in pieces]
        assert _most(filters, -CODE_RANGE, CODE_RANGE) < 1 << 15
        for tile in range(1, largest + 1):
            inputs = [whole_input_matrix(tile, t) for t in pieces]
            for low, high in ((0, 255), (-128, 127)):
                assert _most(inputs, low, high) < 1 << 15


def _most(matrices: list[Matrix], low: int, high: int) -> int:
    """The largest size of a sum, times the matrices, of numbers from `low` to `high`."""
    product = np.ones((1, 1), np.int64)
    for matrix in matrices:
        product = np.kron(product, np.array(matrix, np.int64))
    return max(
        int(np.maximum(product * sign * low, product * sign * high).sum(1).max())
        for sign in (1, -1)
    )


@examples(0.3)
@given(st.data())
def test_whole_matrices_give_a_multiple_of_the_filtered_items(data: st.DataObject) -> None:
    taps = data.draw(st.integers(2, 7))
    largest = data.draw(st.integers(1, 9 - taps))
    tile = data.draw(st.integers(1, largest))
    n = points(tile, taps)
    a, g, b = (
        np.array(matrix)
        for matrix in (
            whole_output_matrix(tile, taps, largest),
            whole_filter_matrix(largest, taps)[:n],
            whole_input_matrix(tile, taps),
        )
    )
    assert all(x.denominator == 1 for matrix in (a, g, b) for x in matrix.ravel())
    items = st.integers(-99, 99)
    x = np.array(data.draw(st.lists(items, min_size=n, max_size=n)))
    w = np.array(data.draw(st.lists(items, min_size=taps, max_size=taps)))
    expected = whole_scale(largest, taps) * np.correlate(x, w, "valid")
    np.testing.assert_array_equal(a @ ((g @ w) * (b @ x)), expected)


def _constant(
    batch: int,
    inputs: int,
    outputs: int,
    extents: tuple[int, int],
    tile: int,
    code: int = 0,
    weight: int = 1,
) -> Case:
    """A window of 3 x 3 with padding, whose codes and weights are equal."""
    x = np.full((batch, inputs, *extents), code, CODES)
    w = np.full((outputs, inputs, 3, 3), weight, np.int8)
    return Case(x, w, LIMITS.min, np.zeros((), np.int8), (ONES, ONES), ONES, ONES, 1, tile=tile)


def _bound(tile: int) -> int:
    """The largest exact sum of the sizes of weights of 3 x 3 windows."""
    return ((1 << 32 - inverse_and_shift(tile, (3, 3))[1]) - 1) // CODE_RANGE


def _with_sum(case: Case, total: int, sign: int) -> Case:
    """Weights of one sign whose sizes have the sum `total`, as far as int8 can."""
    w: Any = np.zeros(case.filter.size, np.int64)
    most = 127 if sign > 0 else 128
    w[: total // most] = most
    if total // most < w.size:
        w[total // most] = total % most
    return replace(case, filter=(sign * w).astype(np.int8).reshape(case.filter.shape))
