"""Measure several calls alternately in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from nnefc.cli.support.measurements import repeat

Key = TypeVar("Key")

REST: Final = 0.1
"""Seconds before a turn, in which threads of other engines stop spinning."""


def measure_alternately(
    calls: Mapping[Key, Callable[[], Any]], rounds: int, turn: float
) -> dict[Key, list[float]]:
    """The median seconds of each call in each of `rounds` turns of `turn` seconds."""
    seconds: dict[Key, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            time.sleep(REST)
            call()
            seconds[key].append(statistics.median(repeat(call, turn)))
    return seconds
