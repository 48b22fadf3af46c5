"""Packs weights in another thread while a program is lowered.

The memory of packed weights is new: most of the time passes in page faults, not in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import numpy as np

    from nnefc.kernels.packing import Release
    from nnefc.program.packed_weight import PackedWeight

_LEAST_BYTES: Final = 1 << 18
"""Packed weights of fewer bytes are packed at once."""
_MOST_BYTES: Final = 256 << 20
"""Bytes of packed weights that may wait: their sources stay alive."""


class _Job(NamedTuple):
    fill: Callable[[], None]
    nbytes: int
    future: Future[None]


class BackgroundPacking:
    """Packs weights within a `with` block, at the end of which all are complete."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[_Job] = []

    def __enter__(self) -> BackgroundPacking:
        return self

    def array(self, weight: PackedWeight, release: Release | None) -> np.ndarray[Any, Any]:
        """The memory of the packed items, which are complete at the end of the block."""
        packed = weight.allocated()

        def fill() -> None:
            weight.fill(packed, release)

        self._jobs = [job for job in self._jobs if not job.future.done() or job.future.exception()]
        waiting = sum(job.nbytes for job in self._jobs)
        if packed.nbytes < _LEAST_BYTES or waiting + packed.nbytes > _MOST_BYTES:
            fill()
            return packed
        try:
            self._jobs.append(_Job(fill, packed.nbytes, self._executor().submit(fill)))
        except RuntimeError:  # the system permits no more threads
            fill()
        return packed

    def _executor(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = self._pool or ThreadPoolExecutor(1, "nnefc-packing")
        return self._pool

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._pool is None:
            return
        try:
            if error is None:
                self._finish()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _finish(self) -> None:
        """Help to pack what waits, last jobs first; raises the errors of the thread."""
        for job in reversed(self._jobs):
            if job.future.cancel():
                job.fill()
        for job in self._jobs:
            if not job.future.cancelled():
                job.future.result()
