"""How many pieces of work a launch is cut into."""

from __future__ import annotations

from typing import Final

TICKET_NS: Final = 500.0
"""Nanoseconds to take a tile, and to say that it is done."""
LATE: Final = 0.25
"""Part of a tile for which threads wait for the last one."""
BAND_PIXELS: Final = 64
"""Pixels of a part of all planes that is worth it."""
TILES: Final = 256
"""More tiles than this help nobody."""
PORTION_NS: Final = 16_000.0
"""Nanoseconds of a unit where kernels want long ones."""
CHOICES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Tiles for each thread."""


def block(count: int, cost: float, threads: int) -> int:
    """Units per tile, for `count` units of `cost` nanoseconds each."""
    least = tiles(count, TILES)
    parts = [1, *(threads * each for each in CHOICES)]
    sizes = {max(tiles(count, n), least) for n in parts if n <= 2 * count}
    return min(
        sorted(sizes, reverse=True),
        key=lambda size: makespan(tiles(count, size), size * cost, threads),
    )


def portion(count: int, cost: float) -> int:
    """How many of `count` steps of `cost` nanoseconds are worth to be a unit."""
    return min(max(int(PORTION_NS / max(cost, 1)), 1), count)


def bands(pixels: int, threads: int) -> int:
    """Into how many parts of their pixels planes are cut at least.

    If one launch after the other gives each thread the same part, and all channels of it, threads
    meet in their caches what they left there.  Few pixels are not worth it: what has few pixels
    has many weights.
    """
    together = max(threads, 2)
    return together if pixels >= BAND_PIXELS * together else 1


def makespan(count: int, cost: float, threads: int) -> float:
    """Nanoseconds until `count` tiles of `cost` nanoseconds are done by all threads together.

    One thread takes turns with nobody; yet others may run what was compiled for one, and what
    follows a tile finds it in the cache, so that it is cut as for two.
    """
    together = max(threads, 2)
    return tiles(count, together) * (cost + TICKET_NS) + LATE * cost


def tiles(count: int, size: int) -> int:
    """Tiles of `size` units that `count` units make."""
    return -(-count // size)
