"""The lengths that a plan of an artifact serves, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from nnefc.dynamic.plan_cache import MAX_LOG2_DISTANCE
from nnefc.symbolic.guards import guards_hold

if TYPE_CHECKING:
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.plan.plan_conditions import PlanConditions

_MAX_EXPONENT: Final = 12
"""Values at distances of powers of two below 2^12 are tried beyond a range."""


def coverage(conditions: PlanConditions, holds: Callable[[Sequence[int]], bool]) -> str:
    """The values of each symbol for which a plan holds: `S = 9 to 1024`.

    `holds`: whether the guards hold for values of the parameters.  While one symbol varies, the
    others have the values of the trace.
    """

    def fits(values: Sequence[int]) -> bool:
        return conditions.distance(values) <= MAX_LOG2_DISTANCE and holds(values)

    parts: list[str] = []
    for i, name in enumerate(conditions.symbols):
        low, high = _range(fits, conditions.hints, i)
        text = f"{name} = {low}" if low == high else f"{name} = {low} to {high}"
        parts.append(text + " and others" * _fits_beyond(fits, conditions.hints, i, low, high))
    if conditions.groups:
        parts.append("states that have grown")
    elif len(conditions.traced.names) > 0 and not parts:
        parts.append(_shapes(conditions))
    return ", ".join(parts)


def _shapes(conditions: PlanConditions) -> str:
    extents = iter(conditions.traced.extents)
    return ", ".join(
        f"{name}: [{','.join(str(next(extents)) for _ in range(rank))}]"
        for name, rank in zip(conditions.traced.names, conditions.traced.ranks, strict=True)
    )


def _range(
    fits: Callable[[Sequence[int]], bool], values: Sequence[int], index: int
) -> tuple[int, int]:
    """The ends of a range of values around the hint that fit."""
    hint = values[index]

    def holds(value: int) -> bool:
        return value > 0 and fits([*values[:index], value, *values[index + 1 :]])

    ends: list[int] = []
    for sign in (-1, 1):
        inside, step = hint, 1
        while holds(hint + sign * step):
            inside, step = hint + sign * step, 2 * step
        outside = hint + sign * step
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if holds(middle) else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _fits_beyond(
    fits: Callable[[Sequence[int]], bool], values: Sequence[int], index: int, low: int, high: int
) -> bool:
    """Whether a value beyond a range around the hint fits, such as another multiple of 16."""
    steps = [sign << exponent for exponent in range(_MAX_EXPONENT) for sign in (-1, 1)]
    others = [values[index] + step for step in steps]
    return any(
        fits([*values[:index], other, *values[index + 1 :]])
        for other in others
        if other > 0 and not low <= other <= high
    )


def coverage_of_file(artifact: DynamicArtifact) -> list[str]:
    """The coverage of each plan for the best target; of the first one if none runs here."""
    if not artifact.targets:
        return []
    number = artifact.best_target() or 0
    found: list[str] = []
    for conditions, program in artifact.programs(number):
        found.append(coverage(conditions, partial(guards_hold, program)))
    return found
