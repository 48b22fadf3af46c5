"""Progress of reading a model, reported to a callback once reading takes long."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

Progress = Callable[[int, int, str], object]
"""`progress(done, total, label)`: the units read so far, all units, and the current file."""

DELAY: Final = 0.5
"""Seconds before the first report."""


class _Reporting(NamedTuple):
    progress: Progress
    since: float


_reporting: ContextVar[_Reporting | None] = ContextVar("reporting", default=None)


@contextmanager
def reporting_to(progress: Progress | None) -> Generator[None]:
    """Within the block, `report` calls `progress`, unless it is None."""
    token = _reporting.set(progress and _Reporting(progress, time.monotonic()))
    try:
        yield
    finally:
        _reporting.reset(token)


def is_reporting() -> bool:
    """Whether reports reach a callback now, after `DELAY`."""
    reporting = _reporting.get()
    return reporting is not None and time.monotonic() - reporting.since >= DELAY


def report(done: int, total: int, label: str) -> None:
    """Report that `done` of `total` units are read."""
    reporting = _reporting.get()
    if reporting is not None and is_reporting():
        reporting.progress(done, total, label)
