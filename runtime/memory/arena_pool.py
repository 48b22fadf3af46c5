"""Arenas: memory for values that live between the launches of a call."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.support.array_memory import aligned

Array = np.ndarray[Any, Any]

MAX_IDLE: Final = 4
"""Calls whose memory is retained for later calls; further concurrent callers allocate their own."""
PURPOSE: Final = "values between launches"
"""How error messages name the memory."""


class ArenaPool:
    """Arenas shared by the plans of a model."""

    def __init__(self, max_idle_bytes: int | None = None) -> None:
        """`max_idle_bytes`: bytes that idle arenas may have together; None: no limit.

        One idle arena is always retained.
        """
        self._max_idle_bytes = max_idle_bytes
        self._idle: list[Array] = []
        """`append` and `pop` are atomic, so no lock can stay locked in the child of a fork."""

    def acquire(self, nbytes: int) -> Array:
        """An arena of at least `nbytes` that no other call uses."""
        try:
            arena = self._idle.pop()
        except IndexError:
            return aligned(nbytes, PURPOSE)
        if arena.size >= nbytes:
            return arena
        del arena  # free it before a larger one is allocated
        return aligned(nbytes + nbytes // 8, PURPOSE)  # shapes tend to grow from call to call

    def release(self, arena: Array) -> None:
        """Return an arena from `acquire` for later calls."""
        idle = self._idle
        if len(idle) >= MAX_IDLE:
            return
        limit = self._max_idle_bytes
        if limit is None or not idle or sum(x.size for x in (*idle, arena)) <= limit:
            idle.append(arena)
