"""Expressions of symbols: their values against those of the recorded program, and their form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.symbolic.expressions import MAX_CHARACTERS, MAX_TERMS, expressions
from nnefc.symbolic.integers import Trace, largest, smallest
from nnefc.symbolic.traced_array import traced_call
from tests.helpers.examples import examples

Compute = Callable[..., Any]


def text(compute: Compute, *hints: int) -> str | None:
    """The expression of a computation on symbols A, B, ..."""
    trace = Trace()
    result = compute(*map(trace.symbol, hints))
    names = [chr(ord("A") + i) for i in range(len(hints))]
    (found,) = expressions(trace.program([result]), names)
    return found


ONE_SYMBOL: list[tuple[Callable[[Any], Any], str | None]] = [
    (lambda a: a, "A"),
    (lambda a: a + 1, "A + 1"),
    (lambda a: 1 - a, "1 - A"),
    (lambda a: -a, "-A"),
    (lambda a: 2 * a, "2*A"),
    (lambda a: a * a - 3 * a, "A*A - 3*A"),
    (lambda a: (a + 1) - (a - 1), "2"),
    (lambda a: a - a, "0"),
    (lambda a: (2 * a + 4) // 2 - 2, "A"),
    (lambda a: (a + 2 * 3 - 7) // 2 + 1, "(A + 1)//2"),
    (lambda a: 3 * (a // 2), "3*(A//2)"),
    (lambda a: (3 * a) // 2 + 1, "A + A//2 + 1"),
    (lambda a: ((a + 1) // 2 + 1) // 2, "(A + 3)//4"),
    (lambda a: a - a // 2, "A - A//2"),
    (lambda a: (4 * a + 6) % 4, "2"),
    (lambda a: (5 * a) % 4, "A%4"),
    (lambda a: (a // 2) % 3, "(A//2)%3"),
    (lambda a: largest([a, 0]), "A"),
    (lambda a: largest([a, 3]), "max(A, 3)"),
    (lambda a: 2 * smallest([a, 3, a + 1]), "2*min(A, 3)"),
    (lambda a: math.ceil(a / 2), "ceil(A / 2)"),
    (lambda a: math.floor((a + 1) * 1.5), "floor((A + 1) * 1.5)"),
    (lambda a: abs(a - 3), "abs(A - 3)"),
    (lambda a: 1 << a, None),
    (lambda a: traced_call(_square, a)[0], None),
    (lambda a: traced_call(_square, a)[0] + 1, None),
]


@pytest.mark.parametrize(("compute", "expected"), ONE_SYMBOL)
def test_one_symbol(compute: Compute, expected: str | None) -> None:
    assert text(compute, 5) == expected


TWO_SYMBOLS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda a, b: a * b * 8 // (4 * b), "2*A"),
    (lambda a, b: (a + b) * (a + 1) // (a + 1), "A + B"),
    (lambda a, b: a * 7 // b, "(7*A)//B"),
    (lambda a, b: a % b, "A%B"),
    (lambda a, b: b - a, "B - A"),
    (lambda a, b: 2 * (a + b) - 2 * b, "2*A"),
]


@pytest.mark.parametrize(("compute", "expected"), TWO_SYMBOLS)
def test_two_symbols(compute: Compute, expected: str) -> None:
    assert text(compute, 5, 11) == expected


def _square(a: int) -> tuple[int]:
    return (a * a,)


def test_large_expressions_have_no_text() -> None:
    def power(a: Any, b: Any) -> Any:
        total = a + b
        for _ in range(MAX_TERMS):
            total = total * (a + b + 1)
        return total

    def nested(a: Any) -> Any:
        for i in range(MAX_CHARACTERS):
            a = largest([a, 7 * i]) - a % 5
        return a

    assert text(power, 2, 3) is None
    assert text(nested, 2) is None


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "exact": lambda x, y: (x * y) // y,
    "max": lambda x, y: largest([x, y]),
    "min": lambda x, y: smallest([x, y]),
    "ceil": lambda x, _: math.ceil(x / 4),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(list(OPERATIONS)), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=8,
)


@examples(2)
@given(STEPS, st.lists(st.integers(-9, 9), min_size=2, max_size=4), st.data())
def test_values(steps: list[tuple[str, int, int]], numbers: list[int], data: st.DataObject) -> None:
    """The text, evaluated by Python, equals the computation on plain integers."""

    def compute(*symbols: Any) -> list[Any]:
        values = [*symbols, *numbers]
        for op, i, j in steps:
            values.append(OPERATIONS[op](values[i % len(values)], values[j % len(values)]))
        return values[len(symbols) + len(numbers) :]

    trace = Trace()
    others = data.draw(st.tuples(st.integers(0, 100), st.integers(0, 100)))
    try:
        results, expected = compute(*map(trace.symbol, (12, 31))), compute(*others)
    except ZeroDivisionError:
        assume(False)
        raise
    assume(trace.function([])(*others) is not None)
    for written, value in zip(expressions(trace.program(results), ["A", "B"]), expected):
        if written is not None:
            names = {"A": others[0], "B": others[1], "ceil": math.ceil}
            assert eval(written, names) == value, written
