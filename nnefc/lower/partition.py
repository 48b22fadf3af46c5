"""Divides the work of a launch into tiles, the parts that threads take one at a time.

A tile is several units; a unit is the smallest part that the kernel can compute alone, and may have
several steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nnefc.support.machine_model import START_NS, TICKET_NS
from nnefc.symbolic.integers import ceil_div, hint, largest, smallest
from nnefc.symbolic.sym_int_base import Dim

STRAGGLE: Final = 0.25
"""Average wait for the last thread, as a fraction of a tile."""
BAND_PIXELS: Final = 64
"""Minimum pixels of a band."""
MAX_LAUNCH_TILES: Final = 256
"""Maximum tiles of a launch."""
MIN_UNIT_NS: Final = 16_000.0
"""Minimum nanoseconds of a unit, for kernels that benefit from long units."""
TILES_PER_THREAD_CHOICES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of tiles per thread that `units_per_tile` chooses from."""


def units_per_tile(count: Dim, cost: float, threads: int, start: float = 0.0) -> Dim:
    """Units per tile, for `count` units of `cost` ns each and `start` ns of overhead per tile."""
    counts = [1, *(partition_threads(threads) * each for each in TILES_PER_THREAD_CHOICES)]
    sizes = {
        max(ceil_div(hint(count), n), ceil_div(hint(count), MAX_LAUNCH_TILES)): n for n in counts
    }
    best = min(
        sorted(sizes, reverse=True),
        key=lambda size: makespan(
            ceil_div(hint(count), size), hint(start) + size * hint(cost), threads
        ),
    )
    # for a symbolic count the number of tiles is fixed, not the units per tile
    return largest([ceil_div(count, sizes[best]), ceil_div(count, MAX_LAUNCH_TILES)])


def steps_per_unit(count: Dim, cost: float) -> Dim:
    """Steps per unit, for `count` steps of `cost` nanoseconds each."""
    return smallest([max(int(MIN_UNIT_NS / max(hint(cost), 1)), 1), count])


def band_count(pixels: int, threads: int) -> int:
    """Minimum number of bands to divide the pixels of a plane into.

    If consecutive launches give each thread the same band of all channels, its core still has the
    data in its cache.  Small planes are not divided: their layers have many weights.
    """
    count = partition_threads(threads)
    return count if pixels >= BAND_PIXELS * count else 1


def makespan(count: int, cost: float, threads: int) -> float:
    """Nanoseconds until all threads together finish `count` tiles of `cost` nanoseconds."""
    start = START_NS if count > 1 else 0
    return (
        start + ceil_div(count, partition_threads(threads)) * (cost + TICKET_NS) + STRAGGLE * cost
    )


def partition_threads(threads: int) -> int:
    """The number of threads to partition launches for.

    At least 2: a plan compiled for one thread may run on more, and results of smaller tiles are
    still in the cache when the next kernel reads them.
    """
    return max(threads, 2)


def block_sizes(count: int) -> Iterator[int]:
    """ceil(count / n) for n = 1, 2, 3, ..., without repeats: the useful block sizes."""
    size = count
    while size > 1:
        yield size
        size = ceil_div(count, ceil_div(count, size - 1))
    yield 1
