"""Partitions the work of a launch into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nnefc.support.machine_model import START_NS, TICKET_NS
from nnefc.symbolic.integers import hint, largest, smallest

LATE: Final = 0.25
"""Fraction of a tile that the last thread makes the others wait for, on average."""
BAND_PIXELS: Final = 64
"""Fewest pixels of a band."""
TILES: Final = 256
"""Most tiles of a launch."""
PORTION_NS: Final = 16_000.0
"""Least nanoseconds of a unit of kernels that profit from long units."""
CHOICES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Tiles for each thread."""


def per_tile(count: int, cost: float, threads: int, start: float = 0.0) -> int:
    """Units per tile, for `count` units of `cost` ns each and `start` ns of overhead per tile."""
    parts = [1, *(sharing(threads) * each for each in CHOICES)]
    sizes = {max(ceil_div(hint(count), n), ceil_div(hint(count), TILES)): n for n in parts}
    best = min(
        sorted(sizes, reverse=True),
        key=lambda size: makespan(
            ceil_div(hint(count), size), hint(start) + size * hint(cost), threads
        ),
    )
    # the number of tiles is right for other counts, too
    return largest([ceil_div(count, sizes[best]), ceil_div(count, TILES)])


def portion(count: int, cost: float) -> int:
    """How many of `count` steps of `cost` nanoseconds form a unit."""
    return smallest([max(int(PORTION_NS / max(hint(cost), 1)), 1), count])


def bands(pixels: int, threads: int) -> int:
    """The least number of bands that the pixels of planes are divided into.

    If consecutive launches give each thread the same band of all channels, the data is still in
    the cache of its core.  Small planes are not divided: their layers have many weights.
    """
    together = sharing(threads)
    return together if pixels >= BAND_PIXELS * together else 1


def makespan(count: int, cost: float, threads: int) -> float:
    """Nanoseconds until all threads together finish `count` tiles of `cost` nanoseconds."""
    start = START_NS if count > 1 else 0
    return start + ceil_div(count, sharing(threads)) * (cost + TICKET_NS) + LATE * cost


def sharing(threads: int) -> int:
    """The number of threads that launches are partitioned for.

    At least 2: a plan compiled for one thread may run on more, and smaller tiles are also still in
    the cache when the next kernel reads them.
    """
    return max(threads, 2)


def parts_of(count: int) -> Iterator[int]:
    """The sizes of the largest part when `count` items form 1, 2, 3 ... parts, without repeats."""
    size = count
    while size > 1:
        yield size
        size = ceil_div(count, ceil_div(count, size - 1))
    yield 1


def ceil_div(count: int, size: int) -> int:
    """`count / size`, rounded up."""
    return -(-count // size)
