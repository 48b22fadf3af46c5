"""The state that the threads of a team share: byte offsets for native code and Python.

Fields written by different threads lie on different cache lines (128 bytes: lines are prefetched in
pairs).
"""

from __future__ import annotations

from typing import Final

TICKET: Final = 0
"""sequence << 2 * TILE_BITS | first << TILE_BITS | end: tiles `first` to `end` - 1 are left."""
DONE: Final = 128
"""Tiles of the current launch that are complete."""
WAKE: Final = 256
"""Futex word of the workers."""
SLEEPERS: Final = 264
"""Number of workers that sleep, or are about to."""
FINISHED: Final = 384
"""The sequence after the last launch of a run, once it is complete."""
PARKED: Final = 392
"""1 while the caller sleeps, or is about to."""
END: Final = 400
"""Futex word of the caller."""

LAUNCHES: Final = 512
COUNT: Final = 520
BASES: Final = 528
FIRST: Final = 536
"""The plan that is run: address and number of launches, bases, sequence of the first launch."""

STOP: Final = 640
"""Not 0: workers return."""
SPINS: Final = 648
"""Number of polls for work before a thread sleeps."""
SYSCALL: Final = 656
GETCPU: Final = 664
"""Addresses of `syscall` and `sched_getcpu` in the C library."""
FUTEX: Final = 672
SETAFFINITY: Final = 680
GETAFFINITY: Final = 688
GETTID: Final = 696
"""System call numbers."""
WORKERS: Final = 704
"""Number of workers that have registered."""
TIDS: Final = 768
"""Their thread ids."""
PLACES: Final = 1280
"""Of each worker `AWAKE`, `ASLEEP`, `CLAIMED`, or `STEERED` + waker << CPU_BITS | CPU."""

MAX_WORKERS: Final = (PLACES - TIDS) // 8
MASK_BYTES: Final = 128
MASKS: Final = PLACES + 8 * MAX_WORKERS
"""For each worker, memory for the mask of its CPUs."""
STATE_BYTES: Final = MASKS + MASK_BYTES * MAX_WORKERS

AWAKE, ASLEEP, CLAIMED, STEERED = range(4)
"""`CLAIMED`: its mask is being changed.  `STEERED`: it is kept from the CPU of the waker, another
thread."""
CPU_BITS: Final = 10
TILE_BITS: Final = 10
"""Bits of the number of a tile in the ticket."""
MAX_TILES: Final = (1 << TILE_BITS) - 1
"""Tiles of one launch at most: the capacity of the ticket."""
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # private to the process
EVERYBODY: Final = 1 << 30
