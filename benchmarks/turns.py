"""Seconds of calls that take turns, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from nnefc.cli.support.measurements import repeat

Key = TypeVar("Key")

REST: Final = 0.1
"""Seconds before a turn: threads of other engines look for work for a while after theirs."""


def by_turns(
    calls: Mapping[Key, Callable[[], Any]], rounds: int, turn: float
) -> dict[Key, list[float]]:
    """The median of the seconds of a call in each of its turns, which take `turn` seconds."""
    seconds: dict[Key, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            time.sleep(REST)
            call()
            seconds[key].append(statistics.median(repeat(call, turn)))
    return seconds
