"""Fixed point with one rounding, against gemmlowp's functions with two."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.lower.convolution.rounded_once import rounded_once
from tests.helpers.examples import examples
from tests.helpers.gemmlowp import multiply_by_quantized_multiplier

Array = np.ndarray[Any, Any]
LOW, HIGH = -128, 127


def _terms(*pairs: tuple[int, int]) -> list[Array]:
    """Multipliers, left shifts of 0 and right shifts."""
    multiplier, right = np.array(pairs, np.int32).T
    return [multiplier, np.zeros_like(right), right]


def _added(terms: list[Array], channel: int) -> int:
    """The number that kernels add, from its words."""
    low, high = (int(term[channel]) & 0xFFFFFFFF for term in terms[1:3])
    return low | high << 32


def _result(x: int, form: str, terms: list[Array], channel: int) -> int:
    """What kernels compute of a sum."""
    size = abs(x) if form == "fixed_away" else x
    product = size * int(terms[0][channel]) + _added(terms, channel)
    whole = product >> 32 >> int(terms[3][channel])
    return -whole if form == "fixed_away" and x < 0 else whole


@examples(5)
@given(
    st.integers(1 << 30, (1 << 31) - 1),
    st.integers(0, 30),
    st.integers(1, 15),
    st.integers(8, 30),
    st.booleans(),
    st.data(),
)
def test_results_are_those_of_two_roundings(
    multiplier: int, zeros: int, right: int, bits: int, negative: bool, data: st.DataObject
) -> None:
    multiplier = max(multiplier >> zeros << zeros, 1 << 30)
    most = 1 << bits
    pairs = [(1 << 30 | 12345, 4), (multiplier, right)]
    low = LOW if negative else 0
    bounds = np.array([1000, most], np.float64)
    found = rounded_once(_terms(*pairs), bounds, low, HIGH)
    if found is None:
        assert negative
        assert multiplier % 2 == 0
        return
    form, terms = found
    assert form == ("fixed_away" if negative else "fixed_once")
    unit = 2.0 ** (31 + right) / multiplier
    near = [round((data.draw(st.integers(LOW, HIGH)) + 0.5) * unit) + d for d in range(-2, 3)]
    for x in (*near, data.draw(st.integers(-most, most)), most, -most):
        if abs(x) <= most:
            want = multiply_by_quantized_multiplier(x, multiplier, -right)
            got = _result(x, form, terms, 1)
            assert np.clip(got, low, HIGH) == np.clip(want, low, HIGH), x


def test_forms() -> None:
    odd, power = (1 << 30) + 12345, 1 << 30
    bounds = np.array([1e6])
    assert rounded_once(_terms((odd, 3)), bounds, 0, HIGH) is not None
    found = rounded_once(_terms((odd, 3)), bounds, LOW, HIGH)
    assert found is not None
    assert found[0] == "fixed_away"
    # -3 / 2 is rounded to -1, then -0.5 away from zero, or -1.5 to -2
    assert rounded_once(_terms((power, 1)), bounds, LOW, HIGH) is None
    assert rounded_once(_terms((power, 1)), bounds, 0, HIGH) is not None
    # no bits are left for the upper word
    assert rounded_once(_terms((odd, 0)), bounds, 0, HIGH) is None
    assert rounded_once(_terms((odd, 23)), bounds, 0, HIGH) is None
    assert rounded_once(_terms((odd, 22)), bounds, 0, HIGH) is not None
    assert rounded_once(_terms((odd, 15)), bounds, 0, 32767) is None
    multiplier, left, right = _terms((odd, 3))
    assert rounded_once([multiplier, left + 1, right], bounds, 0, HIGH) is None
    assert rounded_once(_terms((odd, 3)), np.array([2.0**31]), 0, HIGH) is None
