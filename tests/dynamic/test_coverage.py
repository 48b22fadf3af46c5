"""The lengths that a plan serves, as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnefc.dynamic.coverage import coverage
from nnefc.runtime.plan.plan_conditions import PlanConditions, ShapeKey


def is_multiple(value: int) -> bool:
    return value % 16 == 0


def is_hint(value: int) -> bool:
    return value == 64


def is_near(value: int) -> bool:
    return 60 <= value <= 70


@pytest.mark.parametrize(
    ("holds", "expected"),
    [(is_multiple, "S = 64 and others"), (is_hint, "S = 64"), (is_near, "S = 60 to 70")],
)
def test_values_beyond_a_range_are_mentioned(holds: Callable[[int], bool], expected: str) -> None:
    key = ShapeKey(("x",), (1,), (64,))
    conditions = PlanConditions(("S",), key, [], [], (64,), False)
    assert coverage(conditions, lambda values: holds(values[0])) == expected
