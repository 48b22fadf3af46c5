"""The arithmetic of sliding windows against the formulas of section 4.3, and numpy.pad."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.core.window_arithmetic import (
    BORDERS,
    METHODS,
    NO_TERM,
    OUTSIDE,
    forward_taps,
    interpolation,
    resolve,
    resolve_reverse,
    reverse_taps,
    source_index,
    source_indices,
)
from nnefc.support.errors import NnefError

extents = st.integers(1, 12)
steps = st.integers(1, 5)
paddings = st.integers(-3, 6)
borders = st.sampled_from(BORDERS)


@pytest.mark.parametrize(
    ("border", "mode"),
    [("replicate", "edge"), ("reflect", "reflect"), ("reflect-even", "symmetric")],
)
@pytest.mark.parametrize("extent", [1, 2, 3, 5])
def test_borders_match_numpy(border: str, mode: str, extent: int) -> None:
    positions = np.arange(-11, extent + 11)
    padded: Any = np.pad
    expected = padded(np.arange(extent), 11, mode=mode)
    np.testing.assert_array_equal(source_indices(positions, extent, border), expected)


@pytest.mark.parametrize("border", BORDERS)
def test_a_single_reflection_matches_the_formula(border: str) -> None:
    z = 4
    expected = {
        "constant": (OUTSIDE, OUTSIDE),
        "ignore": (OUTSIDE, OUTSIDE),
        "replicate": (0, z - 1),
        "reflect": (2, z - 1 - (5 - z + 1)),
        "reflect-even": (2 - 1, z - 1 - (5 - z)),
    }
    assert (source_index(-2, z, border), source_index(5, z, border)) == expected[border]
    assert [source_index(i, z, border) for i in range(z)] == list(range(z))


def test_unknown_borders_and_methods_are_errors() -> None:
    with pytest.raises(ValueError, match="mirror"):
        source_index(0, 1, "mirror")
    with pytest.raises(ValueError, match="cubic"):
        interpolation(1, 1, "cubic", "constant")


@given(extents, steps, steps, steps)
def test_automatic_padding_covers_the_input(x: int, size: int, stride: int, dilation: int) -> None:
    window = resolve((x,), (size,), (), (stride,), (dilation,))
    ((p, q),) = window.padding
    (dilated,) = window.dilated
    assert dilated == (size - 1) * dilation + 1
    assert window.down == (math.ceil(x / stride),)
    assert q - p in (0, 1)
    assert p + q == max((window.down[0] - 1) * stride + dilated - x, 0)
    explicit = resolve((x,), (size,), ((p, q),), (stride,), (dilation,))
    assert explicit.down == window.down


@given(extents, steps, paddings, paddings, steps, steps)
def test_reverse_extents_invert_forward_extents(
    x: int, size: int, p: int, q: int, stride: int, dilation: int
) -> None:
    window = resolve_reverse((x,), (size,), ((p, q),), (stride,), (dilation,))
    assert window.up == ((x - 1) * stride + window.dilated[0] - (p + q),)
    assert resolve(window.up, (size,), ((p, q),), (stride,), (dilation,)).down == (x,)
    assert resolve_reverse((x,), (size,), (), (stride,), (dilation,)).up == (x * stride,)
    for rest in range(stride):
        output = (window.up[0] + rest,)
        given = resolve_reverse((x,), (size,), ((p, q),), (stride,), (dilation,), output)
        assert given.up == output
        assert resolve(output, (size,), ((p, q),), (stride,), (dilation,)).down == (x,)


@given(extents, steps, extents, paddings, steps, steps, borders)
def test_tables_of_taps_match_their_formulas(
    outputs: int, taps: int, extent: int, p: int, stride: int, dilation: int, border: str
) -> None:
    forward = forward_taps(outputs, taps, extent, p, stride, dilation, border)
    reverse = reverse_taps(outputs, taps, extent, p, stride, dilation, border)
    assert forward.shape == reverse.shape == (outputs, taps)
    for i in range(outputs):
        for j in range(taps):
            assert forward[i, j] == source_index(i * stride + j * dilation - p, extent, border)
            at = Fraction(i + p - j * dilation, stride)
            expected = source_index(int(at), extent, border) if at.denominator == 1 else NO_TERM
            assert reverse[i, j] == expected


@given(extents, st.integers(1, 40), st.tuples(paddings, paddings), steps, steps)
def test_clipped_windows_read_the_same_items(
    extent: int, size: int, padding: tuple[int, int], stride: int, dilation: int
) -> None:
    for given_ in ((), (padding,)):
        window = resolve((extent,), (size,), given_, (stride,), (dilation,))
        (positions,) = window.down
        if positions < 1:
            continue
        clipped = window.clipped()
        assert clipped == resolve((extent,), clipped.size, clipped.padding, (stride,), (dilation,))
        assert clipped.down == window.down
        assert clipped.volume <= extent + (positions - 1) * stride
        for old, new in zip(window.taps(0, "constant"), clipped.taps(0, "constant"), strict=True):
            assert sorted(old[old >= 0]) == sorted(new[new >= 0])


@pytest.mark.parametrize("make", [forward_taps, reverse_taps])
def test_tables_are_bounded(make: Callable[..., object]) -> None:
    with pytest.raises(NnefError, match="100000000 taps at 6 positions") as caught:
        make(6, 100_000_000, 6, 0, 1, 1, "constant")
    assert caught.value.errors[0].rule == "limit/window"


@given(extents, steps, st.sampled_from(METHODS), borders)
def test_interpolation_matches_its_formula(
    extent: int, factor: int, method: str, border: str
) -> None:
    made = interpolation(extent, factor, method, border)
    for i in range(extent * factor):
        match method:
            case "asymmetric":
                at = Fraction(i, factor)
            case "symmetric":
                at = (i - Fraction(factor - 1, 2)) / factor
            case _:
                g = Fraction(extent * factor - 1, extent - 1) if extent > 1 else None
                at = i / g if g else Fraction(0)
        j = math.floor(at)
        assert math.isclose(made.weight[i], at - j)
        assert made.low[i] == source_index(j, extent, border)
        if at != j:
            assert made.high[i] == source_index(j + 1, extent, border)
        else:
            assert made.high[i] == made.low[i]
