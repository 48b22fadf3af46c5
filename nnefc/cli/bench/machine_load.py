"""The load of other processes during a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

_STAT: Final = Path("/proc/stat")
_IDLE_FIELDS: Final = (3, 4)
"""Fields of a line of /proc/stat that count idle time: `idle` and `iowait` (proc_stat(5))."""
_COUNTED_FIELDS: Final = 8
"""The fields that add up to all time; the two after them are counted in `user` and `nice`."""
MIN_SECONDS: Final = 0.5
"""The system counts ticks of 10 ms: shorter measurements tell nothing."""
BUSY: Final = 0.25
"""Processors; a load below disturbs few runs."""


class LoadMeter(NamedTuple):
    """Processor time at the start of a measurement, in seconds."""

    started: float
    own: float
    every: float | None
    """Of all processes on the processors that this process may use; None where unknown."""

    @classmethod
    def start(cls) -> LoadMeter:
        """A meter that starts now."""
        return cls(time.monotonic(), time.process_time(), busy_seconds())

    def others(self) -> float | None:
        """The mean number of processors that other processes have used since the start.

        None if the system does not tell, or after less than `MIN_SECONDS`.
        """
        every, elapsed = busy_seconds(), time.monotonic() - self.started
        if every is None or self.every is None or elapsed < MIN_SECONDS:
            return None
        own = time.process_time() - self.own
        return max(0.0, every - self.every - own) / elapsed


def busy_seconds() -> float | None:
    """Seconds that the usable processors have been busy since the system started."""
    try:
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = os.sysconf("SC_CLK_TCK")
        rows = [line.split() for line in _STAT.read_text().splitlines()]
        counted = [list(map(int, row[1 : 1 + _COUNTED_FIELDS])) for row in rows if row[0] in usable]
    except (OSError, AttributeError, ValueError, IndexError):  # other systems
        return None
    return sum(sum(row) - sum(row[i] for i in _IDLE_FIELDS) for row in counted) / ticks
