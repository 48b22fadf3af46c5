"""Numbers of random examples, relative to the hypothesis profile of the run."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

PROFILES = {
    "default": settings(max_examples=100),
    # Examples are the same in every run: a failure is due to the change that is tested.
    "quick": settings(max_examples=10, derandomize=True),
    "ci": settings(max_examples=60, derandomize=True, print_blob=True, database=None),
    "thorough": settings(max_examples=1000, derandomize=False, print_blob=True),
}
"""The choices of `pytest --hypothesis-profile`.

Without the option, `-m "not slow"` selects `quick`, the environment variable `CI` selects `ci`."""


def register() -> None:
    """Register the profiles with hypothesis, without deadlines."""
    for name, profile in PROFILES.items():
        settings.register_profile(
            name, profile, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )


def examples(factor: float, **options: Any) -> settings:
    """Settings with `factor` times the profile's number of examples, at least one."""
    count = max(1, round(factor * settings().max_examples))
    return settings(max_examples=count, **options)
