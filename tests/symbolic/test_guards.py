"""Guards of programs in files, evaluated in bounded time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.symbolic.guards import guards_hold
from nnefc.symbolic.integers import Trace
from nnefc.symbolic.straight_line import Step, StraightLine, from_data
from tests.helpers.examples import examples


def program_of(steps: list[list[Any]]) -> StraightLine:
    return from_data({"symbols": ["s0"], "steps": steps, "results": []}, [])


@pytest.mark.parametrize(
    "steps",
    [
        [["v0", "<<", [1, 10**11]]],
        [["v0", "<<", [1, 63]]],
        [["v0", "<<", [1, -1]]],
        [
            ["v0", "*", ["s0", "s0"]],
            *([f"v{i + 1}", "*", [f"v{i}", f"v{i}"]] for i in range(40)),
        ],
        [["v0", "/", [1, 0]]],
        [["v0", "bit_length", [0.5]]],
        [["v0", "ceil", [float("inf")]]],
        [["v0", "//", ["s0", 2]], ["", ">", ["v0", 8]]],
    ],
)
def test_no_guard_holds_for_hostile_programs(steps: list[list[Any]]) -> None:
    assert not guards_hold(program_of(steps), [9])
    with suppress(ArithmeticError, AttributeError, ValueError):
        assert program_of(steps).function()(9) is None


def test_results_of_calls_are_not_computed() -> None:
    assert guards_hold(program_of([["a0", "item", ["s0", 0]], ["", "<", ["a0", 0]]]), [9])


def _never(n: int) -> int:
    raise AssertionError("called")


def test_captured_functions_are_not_called() -> None:
    trace = Trace()
    n = trace.symbol(8)
    assert n > 3
    function = trace.program([n])._replace(captured=(_never,))
    function = function._replace(steps=(*function.steps, Step("a9", "call", ("g0", "s0"))))
    assert guards_hold(function, [8])
    assert not guards_hold(function, [3])


@examples(1)
@given(st.integers(1, 300))
def test_guards_hold_where_the_function_has_a_value(value: int) -> None:
    trace = Trace()
    n = trace.symbol(64)
    results: list[Any] = [max(n // 2, 3), min(abs(1 - n), 9), -n, (n + 1) / 2, 1 << (n % 5)]
    assert n % 16 == 0
    assert 3 * n > 40
    program = trace.program(results)
    assert guards_hold(program, [value]) == (program.function()(value) is not None)
