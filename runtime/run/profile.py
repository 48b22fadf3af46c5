"""Profiles of plans: when and on which thread each tile starts and ends, in several runs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nnefc.kernels.abi import LAUNCH_KERNEL, LAUNCH_PARAMS, LAUNCH_TILES
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.runtime.plan.plan import LaunchSequence, Plan
from nnefc.support.array_memory import aligned
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.plan.plan import Int64Array

Seconds = npt.NDArray[np.float64]

_MAX_RECORD_BYTES = 64 << 20
"""Bytes that the records of all runs may take."""


class Probes:
    """The launches of a plan, each wrapped in a probe that records when and where its tiles run."""

    def __init__(self, plan: Plan, code: int) -> None:
        """`code`: the address of the image that the plan's kernels are offsets into."""
        from nnefc.kernels.measure.probe import PROBE, RECORD, stamp

        library = ctypes.CDLL(None)
        clock = ctypes.cast(library.clock_gettime, ctypes.c_void_p).value
        probe = stamp()
        self._code = compile_kernels([probe])
        tiles = plan.launches[:, LAUNCH_TILES // 8]
        self.step_of: npt.NDArray[np.intp] = np.repeat(np.arange(len(tiles)), tiles)
        """[tiles]: the step of each tile."""
        first = np.cumsum(tiles) - tiles
        self._memory = aligned(RECORD.nbytes * len(self.step_of), "times of tiles")
        self._records: Int64Array = self._memory.view(np.int64).reshape(-1, RECORD.nbytes // 8)
        self._records[...] = 0
        params = [
            PROBE.pack(
                kernel=launch[LAUNCH_KERNEL // 8],
                params=launch[LAUNCH_PARAMS // 8],
                clock=clock,
                clock_id=time.CLOCK_MONOTONIC,
                records=self._memory.ctypes.data + RECORD.nbytes * start,
            )
            for launch, start in zip(plan.launches.tolist(), first.tolist(), strict=True)
        ]
        self._params = np.array(params, np.int64)
        self._encoded = plan.launches.copy()
        # Offsets are relative to the plan's image and parameters, but point to the probes'.
        self._encoded[:, LAUNCH_KERNEL // 8] = self._code.entry(probe.symbol) - code
        offset = self._params.ctypes.data - plan.params.ctypes.data
        self._encoded[:, LAUNCH_PARAMS // 8] = offset + PROBE.nbytes * np.arange(len(tiles))
        self.launches = LaunchSequence(self._encoded.ctypes.data, len(tiles), plan.parallel)
        """The launches to run in place of the plan, with the same bases."""

    def take(self) -> Int64Array:
        """[tiles, 5]: the fields of the record of each tile, then cleared; zeros for no record."""
        records = self._records[:, :5].copy()
        self._records[...] = 0
        return records


@dataclass(frozen=True, eq=False)
class Profile:
    """Times of the launches of a plan, in several runs.

    A launch may run several times in a call: each time is a step, with tiles of its own.
    """

    step_of: npt.NDArray[np.intp]
    """[tiles]: the step of each tile, in ascending order."""
    launch_of_step: npt.NDArray[np.int64]
    """[steps]: the launch of each step."""
    threads: int
    """The number of threads that ran tiles."""
    start: Int64Array
    """[runs, tiles]: nanoseconds of `time.CLOCK_MONOTONIC`."""
    end: Int64Array
    """[runs, tiles].  If one thread runs all tiles of a step at once, the first tile records them
    all, and the others have neither start nor end (0).  Steps that a run skips have none either."""
    thread: Int64Array
    """[runs, tiles]: the number of the thread; 0 is the caller."""
    earlier: Int64Array
    """[runs, tiles]: nanoseconds that the tile took before its last execution, in loops whose turns
    repeat a step."""
    count: Int64Array
    """[runs, tiles]: how often the tile ran, where it has a record."""

    @property
    def runs(self) -> int:
        return len(self.start)

    @cached_property
    def launch_of(self) -> npt.NDArray[np.int64]:
        """[tiles]: the launch of each tile."""
        return self.launch_of_step[self.step_of]

    @property
    def launches(self) -> int:
        return int(self.launch_of_step.max()) + 1

    @cached_property
    def wall(self) -> Seconds:
        """[runs, launches]: seconds from the start of the first tile to the end of the last.

        Summed over the steps of a launch; 0 if none ran.  Of earlier executions of a step, the time
        of the longest tile counts.
        """
        begun = np.where(self.end == 0, np.iinfo(np.int64).max, self.start)
        starts = np.minimum.reduceat(begun, self._first, axis=1)
        ends = np.maximum.reduceat(self.end, self._first, axis=1)
        earlier = np.maximum.reduceat(self.earlier, self._first, axis=1)
        return self._by_launch(np.where(ends > 0, ends - starts, 0) + earlier)

    @cached_property
    def executions(self) -> Int64Array:
        """[runs, launches]: how often each launch ran."""
        counts = np.maximum.reduceat(self.count, self._first, axis=1)
        sums = np.zeros((self.launches, len(counts)), np.int64)
        np.add.at(sums, self.launch_of_step, counts.T)
        return sums.T

    @cached_property
    def busy(self) -> Seconds:
        """[runs, launches]: seconds that threads spent in tiles, summed."""
        spent = self.end - self.start + self.earlier
        return self._by_launch(np.add.reduceat(spent, self._first, axis=1))

    @cached_property
    def _first(self) -> npt.NDArray[np.intp]:
        """[steps]: the first tile of each step."""
        return np.searchsorted(self.step_of, np.arange(len(self.launch_of_step)))

    def _by_launch(self, nanoseconds: Int64Array) -> Seconds:
        """Sum [runs, steps] in nanoseconds to [runs, launches] in seconds."""
        sums = np.zeros((self.launches, len(nanoseconds)))
        np.add.at(sums, self.launch_of_step, 1e-9 * nanoseconds.T)
        return sums.T

    @cached_property
    def total(self) -> Seconds:
        """[runs]: seconds from the start of the first launch to the end of the last."""
        begun = np.where(self.end == 0, np.iinfo(np.int64).max, self.start)
        return (self.end.max(axis=1) - begun.min(axis=1)) * 1e-9

    @property
    def typical(self) -> int:
        """The index of the run with the median time."""
        return int(np.argsort(self.total, kind="stable")[len(self.total) // 2])


def check_seconds(seconds: object) -> None:
    """Raise NnefError `input/argument` unless this is a finite number that is not negative."""
    number = float(seconds) if isinstance(seconds, Real) else -1.0  # Real has NumPy's, too
    if isinstance(seconds, bool) or not 0 <= number < float("inf"):
        message = f"seconds = {seconds!r}: must be a finite number, at least 0"
        raise NnefError.of("input/argument", message)


def profile(
    plan: Plan,
    code: int,
    run: Callable[[LaunchSequence], None],
    *,
    seconds: float,
    min_runs: int = 3,
) -> Profile:
    """Profile a plan for about `seconds`, after two runs to warm up.

    `run` runs a sequence of launches; `code` is the address of the plan's kernels.
    Raises NnefError `input/option` if the plan has no launches, and as `check_seconds`.
    """
    check_seconds(seconds)
    if not len(plan.launches):
        raise NnefError.of("input/option", "nothing to profile: no operation is left")
    probes = Probes(plan, code)
    run(probes.launches._replace(parallel=False))
    caller = int(probes.take()[0, 2])
    run(probes.launches)
    max_runs = max(min_runs, _MAX_RECORD_BYTES // probes.take().nbytes)
    runs: list[Int64Array] = []
    end = time.perf_counter() + seconds
    while len(runs) < min_runs or (len(runs) < max_runs and time.perf_counter() < end):
        run(probes.launches)
        runs.append(probes.take())
    records = np.stack(runs)
    thread, threads = _threads(records[:, :, 2], caller)
    return Profile(
        step_of=probes.step_of,
        launch_of_step=plan.launch_of,
        threads=threads,
        start=records[:, :, 0],
        end=records[:, :, 1],
        earlier=records[:, :, 3],
        count=records[:, :, 4],
        thread=thread,
    )


_STACK_BYTES = 32 << 10
"""Addresses closer than this are on the same stack: every thread reaches its tiles through the same
few calls, and stacks are larger."""


def _threads(stacks: Int64Array, caller: int) -> tuple[Int64Array, int]:
    """(thread number of each stack address, number of threads); address 0 means no record.

    The caller is thread 0; the others are numbered by the addresses of their stacks.
    """
    addresses, inverse = np.unique(np.append(stacks.ravel(), caller), return_inverse=True)
    number = np.cumsum(np.diff(addresses, prepend=addresses[0]) > _STACK_BYTES)
    own = number[inverse[-1]]
    used = sorted(set(number[addresses != 0].tolist()), key=lambda n: (n != own, n))
    order = np.zeros(number[-1] + 1, np.int64)
    order[used] = np.arange(len(used))
    return order[number][inverse[:-1]].reshape(stacks.shape), len(used)
