"""Arenas that the plans of a model share are reused within limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.runtime.memory.arena_pool import MAX_IDLE, ArenaPool
from nnefc.support.alignment import ALIGNMENT

Array = np.ndarray[Any, Any]


def kept(arenas: ArenaPool, given: list[Array], nbytes: int) -> int:
    """The number of arenas that are reused."""
    for arena in given:
        arenas.release(arena)
    taken = [arenas.acquire(nbytes) for _ in range(len(given) + 1)]
    assert len({id(x) for x in taken}) == len(taken)
    return sum(any(x is y for y in given) for x in taken)


@pytest.mark.parametrize(
    ("nbytes", "most", "count"),
    [(100, None, MAX_IDLE), (100, 250, 2), (100, 1000, MAX_IDLE), (100, 50, 1), (0, 0, MAX_IDLE)],
)
def test_idle_arenas_are_limited_in_number_and_bytes(
    nbytes: int, most: int | None, count: int
) -> None:
    arenas = ArenaPool(most)
    given = [arenas.acquire(nbytes) for _ in range(12)]
    assert kept(arenas, given, nbytes) == count


def test_an_arena_is_aligned_and_large_enough() -> None:
    arenas = ArenaPool(1000)
    for nbytes in (10, 300, 20, 1000, 999, 5000, 0, 5001, 5600, 7):
        arena = arenas.acquire(nbytes)
        assert arena.size >= nbytes
        assert arena.ctypes.data % ALIGNMENT == 0
        arena[:nbytes] = 1
        arenas.release(arena)
