"""How far the reading of a model has come, for callers that show it while it takes long."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

Progress = Callable[[int, int, str], object]
"""Called as `progress(done, total, label)`: of how many parts how many are read, of what."""

AFTER: Final = 0.5
"""Seconds that reading takes before it is told how far it has come."""


class _Watch(NamedTuple):
    progress: Progress
    since: float


_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(progress: Progress | None) -> Generator[None]:
    """Inside, `progress` is called as reading goes on, if it takes long; None: nothing is."""
    token = _watch.set(progress and _Watch(progress, time.monotonic()))
    try:
        yield
    finally:
        _watch.reset(token)


def is_watched() -> bool:
    """Whether somebody wants to know by now."""
    watch = _watch.get()
    return watch is not None and time.monotonic() - watch.since >= AFTER


def tell(done: int, total: int, label: str) -> None:
    """Say that `done` of `total` parts are read, to who wants to know."""
    watch = _watch.get()
    if watch is not None and is_watched():
        watch.progress(done, total, label)
