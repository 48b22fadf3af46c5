"""The digest of a large file: a hash of the hashes of its pieces, which threads compute.

SHA-256 reads 1.4 GB/s, less than memory and disks supply, so one thread would take most of the time
of opening a model from the cache.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

PIECE_BYTES: Final = 1 << 22
_READ_BYTES: Final = 1 << 18
"""Bytes that are read at a time; they stay in the cache of a core."""
_MAX_THREADS: Final = 4

T = TypeVar("T")


def in_background(compute: Callable[[], T]) -> Callable[[], T]:
    """Call `compute` in another thread; the function waits, and returns or raises what it did."""
    results: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            results.append(compute())
        except Exception as error:
            failures.append(error)

    def result() -> T:
        thread.join()
        if failures:
            raise failures[0]
        return results[0]

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system permits no more threads
        return compute
    return result


def digest_of_file(descriptor: int, size: int) -> bytes:
    """A digest of 32 bytes of a file of `size` bytes; raises OSError.

    It does not depend on the number of threads.
    """
    pieces = _Pieces(descriptor, -(-size // PIECE_BYTES))
    helpers = [
        threading.Thread(target=pieces.hash_all, daemon=True)
        for _ in range(min(_usable_cpus(), _MAX_THREADS, len(pieces.digests)) - 1)
    ]
    started: list[threading.Thread] = []
    try:
        for helper in helpers:
            helper.start()
            started.append(helper)
    except RuntimeError:  # the system permits no more threads
        pass
    pieces.hash_all()
    for helper in started:
        helper.join()
    if pieces.failure is not None:
        raise pieces.failure
    return hashlib.sha256(b"%d " % size + b"".join(pieces.digests)).digest()


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


class _Pieces:
    """The pieces of a file, and their digests so far."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.digests = [b""] * count
        self.failure: OSError | None = None
        self._descriptor = descriptor
        self._waiting = list(reversed(range(count)))

    def hash_all(self) -> None:
        """Compute digests until none is left; an exception leaves none for other threads."""
        buffer = bytearray(_READ_BYTES)
        try:
            while self._waiting:
                try:
                    number = self._waiting.pop()
                except IndexError:  # another thread took the last piece
                    return
                self.digests[number] = self._digest(number, buffer)
        except OSError as error:
            self.failure = error
        finally:
            self._waiting.clear()

    def _digest(self, number: int, buffer: bytearray) -> bytes:
        total, view = hashlib.sha256(), memoryview(buffer)
        at, end = number * PIECE_BYTES, (number + 1) * PIECE_BYTES
        while at < end:
            count = os.preadv(self._descriptor, [view[: end - at]], at)
            if count == 0:
                break
            total.update(view[:count])
            at += count
        return total.digest()
