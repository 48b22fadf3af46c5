"""Integers that record how they were computed from symbols."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.symbolic.integers import (
    SymInt,
    Trace,
    hint,
    is_symbolic,
    largest,
    smallest,
    specialized,
    statically_equal,
)
from nnefc.symbolic.straight_line import from_data
from nnefc.symbolic.sym_int_base import Untraceable, float_bits

BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    lambda x, y: x // y,
    operator.mod,
    lambda x, y: x / y,
    lambda x, y: largest([x, y, 3]),
    lambda x, y: smallest([x, 2, y]),
    max,
    min,
    lambda x, y: x if x < y else y * 2,
    lambda x, y: x + 1 if x == y else x,
    lambda x, y: divmod(x, y)[1],
]
UNARY: list[Callable[[Any], Any]] = [
    operator.neg,
    abs,
    math.ceil,
    math.floor,
    math.trunc,
    round,
    lambda x: x if x else 7,
    lambda x: len(range(min(abs(math.floor(x)), 9))),
    lambda x: int(x) % 5,
    lambda x: float(x) / 2,
    lambda x: math.floor(x).bit_length(),
    lambda x: 1 << math.floor(x).bit_length(),
]
Step = tuple[int, int, int]


def numbers_of(steps: list[Step], symbols: list[Any]) -> list[Any]:
    """The symbols, 1, 3, and a number for each step, computed from earlier numbers."""
    numbers = [*symbols, 1, 3]
    for which, left, right in steps:
        x, y = numbers[left % len(numbers)], numbers[right % len(numbers)]
        if which < len(BINARY):
            numbers.append(BINARY[which](x, y))
        else:
            numbers.append(UNARY[which - len(BINARY)](x))
    return numbers


STEPS = st.lists(
    st.tuples(st.integers(0, len(BINARY) + len(UNARY) - 1), st.integers(0, 30), st.integers(0, 30)),
    max_size=12,
)
PAIRS = st.tuples(st.integers(0, 40), st.integers(1, 40))


@given(STEPS, PAIRS, st.lists(PAIRS, min_size=1, max_size=8))
def test_functions_agree_with_plain_integers(
    steps: list[Step], first: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    trace = Trace()
    try:
        traced = numbers_of(steps, [trace.symbol(value) for value in first])
    except (ArithmeticError, ValueError):
        return
    assert list(map(hint, traced)) == numbers_of(steps, list(first))
    program = trace.program(traced)
    written = json.loads(json.dumps(program.to_data()))
    function = from_data(written, program.captured).function()
    assert function(*first) == list(map(hint, traced))
    for pair in others:
        try:
            found = function(*pair)
        except (ArithmeticError, ValueError):
            continue  # as it would be to compute it
        if found is not None:
            assert found == numbers_of(steps, list(pair))


def test_guards_are_outcomes_of_comparisons() -> None:
    trace = Trace()
    n = trace.symbol(64)
    tiles = n // 16 if n >= 32 else 1
    function = trace.function([tiles, 4 * n])
    assert function(96) == [6, 384]
    assert function(16) is None
    assert trace.guards == ["s0 >= 32"]


def test_a_plain_number_is_a_guard() -> None:
    trace = Trace()
    n = trace.symbol(4)
    assert np.zeros((n, 2)).shape == (4, 2)
    assert len(range(n)) == 4
    function = trace.function([n])
    assert function(4) == [4]
    assert function(5) is None


def test_a_hint_is_no_guard() -> None:
    trace = Trace()
    n = trace.symbol(4)
    assert hint(n + 1) == 5
    assert hint(7) == 7
    assert trace.function([largest([n, 10]), smallest([n, 10])])(20) == [20, 10]
    assert not trace.guards


def test_symbolic_integers_have_no_hash() -> None:
    n = Trace().symbol(4)
    with pytest.raises(Untraceable, match="value of 4:s0"):
        _ = {n}


@pytest.mark.parametrize("sign", ["pow", "lshift", "rshift", "and_", "or_", "xor"])
def test_operators_that_are_not_implemented(sign: str) -> None:
    n = Trace().symbol(4)
    with pytest.raises(Untraceable, match="value of 4:s0"):
        getattr(operator, sign)(n, 2)
    with pytest.raises(Untraceable, match="value of 4:s0"):
        operator.inv(n)
    with pytest.raises(Untraceable, match="value of 4:s0"):
        pow(2, n)


def test_equal_expressions_are_one() -> None:
    trace = Trace()
    n = trace.symbol(4)
    assert repr(n * 3 + 1) == repr(n * 3 + 1) != repr(n * 3 + 2)
    assert n * 1 is n
    assert (n * 0, n % 1) == (0, 0)


def test_bits_of_floats() -> None:
    trace = Trace()
    n = trace.symbol(4)
    bits = float_bits(1 / n)
    assert hint(bits) == float_bits(0.25)
    assert trace.function([bits])(8) == [float_bits(0.125)]


def test_specialized_tuples_have_no_symbols() -> None:
    trace = Trace()
    n = trace.symbol(4)
    assert specialized(((n, "a"), n / 2, 3)) == ((4, "a"), 2.0, 3)
    assert trace.guards
    assert is_symbolic([1, n])
    assert not is_symbolic([1, specialized(n)])
    assert isinstance(n, SymInt)


def test_a_trace_ends_when_all_symbols_are_specialized() -> None:
    trace = Trace(must_vary=True)
    m, n = trace.symbol(3), trace.symbol(5)
    assert int(m) == 3
    assert list(range(2 * n)) == list(range(10))
    with pytest.raises(Untraceable, match="plain integers"):
        int(n)


def test_coincidental_equality_is_no_guard() -> None:
    trace = Trace()
    n, m = trace.symbol(6), trace.symbol(3)
    assert not statically_equal(n, 2 * m)
    assert not statically_equal(n, 6)
    assert not statically_equal(n, m)
    assert not trace.guards
    assert statically_equal((n + 1) * m, n * m + m)
    assert len(trace.guards) == 1


def test_expressions_without_a_value_for_the_probes() -> None:
    trace = Trace()
    n = trace.symbol(6)
    power = 1 << (10 - n)
    assert trace.function([power])(7) == [8]
    assert not trace.guards
