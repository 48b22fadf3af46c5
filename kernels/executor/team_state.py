"""Memory layout of the state of a thread team: byte offsets for native code and Python.

Fields written by different threads are 128 bytes apart, because cache lines are prefetched in
pairs.
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
"""Number of workers that sleep or are about to."""
FINISHED: Final = 384
"""The sequence number after the last launch of a run, once the run is complete."""
PARKED: Final = 392
"""1 while the caller sleeps or is about to."""
END: Final = 400
"""Futex word of the caller."""

LAUNCHES: Final = 512
COUNT: Final = 520
BASES: Final = 528
FIRST: Final = 536
"""The current plan: address and number of launches, base table, first sequence number."""

STOP: Final = 640
"""Workers return if this is not 0."""
SPINS: Final = 648
"""Number of polls for work before a thread sleeps, or yields if a run is in progress."""
SYSCALL: Final = 656
GETCPU: Final = 664
"""Addresses of `syscall` and `sched_getcpu` in the C library."""
FUTEX: Final = 672
SETAFFINITY: Final = 680
GETAFFINITY: Final = 688
GETTID: Final = 696
YIELD: Final = 704
"""System call numbers."""
WORKERS: Final = 712
"""Number of workers that have registered."""
TIDS: Final = 768
"""Thread id of each worker."""
WORKER_STATUS: Final = 1280
"""Status of each worker: `AWAKE`, `ASLEEP`, `CLAIMED`, or `STEERED` + waker << CPU_BITS | CPU."""

MAX_WORKERS: Final = (WORKER_STATUS - TIDS) // 8
MASK_BYTES: Final = 128
MASKS: Final = WORKER_STATUS + 8 * MAX_WORKERS
"""Memory for the affinity mask of each worker."""
STATE_BYTES: Final = MASKS + MASK_BYTES * MAX_WORKERS

AWAKE, ASLEEP, CLAIMED, STEERED = range(4)
"""`CLAIMED`: another thread is changing the worker's mask.  `STEERED`: the CPU of the waker is
excluded from the mask."""
CPU_BITS: Final = 10
TILE_BITS: Final = 10
"""Bits of a tile number in the ticket."""
MAX_TILES: Final = (1 << TILE_BITS) - 1
"""Most tiles of one launch: the capacity of the ticket."""
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # private to the process
EVERYBODY: Final = 1 << 30
