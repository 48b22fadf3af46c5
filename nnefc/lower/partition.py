"""How many pieces of work a launch is cut into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nnefc.support.machine_model import START_NS, TICKET_NS
from nnefc.symbolic.integers import hint, largest, smallest

LATE: Final = 0.25
"""Threads are done at different moments: they wait for such a part of a tile."""
BAND_PIXELS: Final = 64
"""Pixels of a part of all planes that is worth it."""
TILES: Final = 256
"""More tiles than this help nobody."""
PORTION_NS: Final = 16_000.0
"""Nanoseconds of a unit where kernels want long ones."""
CHOICES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Tiles for each thread."""


def per_tile(count: int, cost: float, threads: int, start: float = 0.0) -> int:
    """Units of a tile, for `count` units of `cost` nanoseconds each; a tile takes `start` more."""
    parts = [1, *(sharing(threads) * each for each in CHOICES)]
    sizes = {max(ceil_div(hint(count), n), ceil_div(hint(count), TILES)): n for n in parts}
    best = min(
        sorted(sizes, reverse=True),
        key=lambda size: makespan(
            ceil_div(hint(count), size), hint(start) + size * hint(cost), threads
        ),
    )
    # as many parts are right for any count
    return largest([ceil_div(count, sizes[best]), ceil_div(count, TILES)])


def portion(count: int, cost: float) -> int:
    """How many of `count` steps of `cost` nanoseconds are worth to be a unit."""
    return smallest([max(int(PORTION_NS / max(hint(cost), 1)), 1), count])


def bands(pixels: int, threads: int) -> int:
    """Into how many parts of their pixels planes are cut at least.

    If one launch after the other gives each thread the same part, and all channels of it, threads
    meet in their caches what they left there.  Few pixels are not worth it: what has few pixels
    has many weights.
    """
    together = sharing(threads)
    return together if pixels >= BAND_PIXELS * together else 1


def makespan(count: int, cost: float, threads: int) -> float:
    """Nanoseconds until `count` tiles of `cost` nanoseconds are done by all threads together."""
    start = START_NS if count > 1 else 0
    return start + ceil_div(count, sharing(threads)) * (cost + TICKET_NS) + LATE * cost


def sharing(threads: int) -> int:
    """How many threads a launch is cut for.

    One shares with nobody; yet others may run what was compiled for one, and what follows a tile
    finds it in the cache, so that it is cut as for two.
    """
    return max(threads, 2)


def parts_of(count: int) -> Iterator[int]:
    """The sizes of the largest part of `count` things in 1, 2, 3 ... parts, each size once."""
    size = count
    while size > 1:
        yield size
        size = ceil_div(count, ceil_div(count, size - 1))
    yield 1


def ceil_div(count: int, size: int) -> int:
    """How many parts of `size` `count` things make."""
    return -(-count // size)
