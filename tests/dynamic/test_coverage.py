"""The lengths that a plan serves, as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnefc.dynamic.coverage import coverage
from nnefc.runtime.plan.plan_conditions import PlanConditions, ShapeKey


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        (lambda s: s % 16 == 0, "S = 64 and others"),
        (lambda s: s == 64, "S = 64"),
        (lambda s: 60 <= s <= 70, "S = 60 to 70"),
    ],
)
def test_values_beyond_a_range_are_mentioned(holds: Callable[[int], bool], expected: str) -> None:
    key = ShapeKey(("x",), (1,), (64,))
    conditions = PlanConditions(("S",), key, [], [], (64,), False)
    assert coverage(conditions, lambda values: holds(values[0])) == expected
