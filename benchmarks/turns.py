"""Seconds of calls that take turns, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

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
            seconds[key].append(_turn(call, turn))
    return seconds


def _turn(call: Callable[[], Any], turn: float) -> float:
    call()
    runs: list[float] = []
    end = time.perf_counter() + turn
    while not runs or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        runs.append(time.perf_counter() - start)
    return statistics.median(runs)
