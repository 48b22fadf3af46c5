"""Measures the peak multiply-add rate and memory bandwidth of this machine.

These are the two limits of the roofline model (Williams, Waterman & Patterson 2009).  Speeds of
shared machines vary, so measure them in the same run as the program that is compared with them.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_PARAMS, LAUNCH_BYTES
from nnefc.kernels.executor.call_status import STATUS_BYTES
from nnefc.kernels.family import Kernel
from nnefc.program.program import Buffer, Launch, Program, Ref
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.runtime.machine.resources import largest_cache
from nnefc.runtime.plan.planner import make_plan
from nnefc.runtime.run.team import Team, shared_team
from nnefc.support.array_memory import aligned

_STEPS = 20_000
"""Steps of a tile of multiply-adds: about 50 us."""
_TILE_BYTES = 1 << 20
"""Bytes of a tile that reads or copies."""
_BLOCK_BYTES = 8 * _TILE_BYTES
"""Bytes of a launch: about 300 us, short enough that some launches run without interruption."""
_MIN_BYTES, _MAX_BYTES = 64 << 20, 512 << 20
"""Least and most memory that launches read in turn."""
_MIN_SAMPLES = 20
"""Least number of timed launches of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Peak rates of `threads` threads together; 1 G = 10^9."""

    threads: int
    fma_gflops: float
    """Floating-point operations per second in float32 multiply-adds (two each), in registers."""
    read_gbps: float
    """Bytes read from memory per second."""
    copy_gbps: float
    """Bytes read plus bytes written per second while memory is copied with streaming stores."""

    def peak_gflops(self, itemsize: int) -> float:
        """`fma_gflops` for items of `itemsize` bytes, scaled by the number of items per vector."""
        return self.fma_gflops * 4 / itemsize


def measure_roofline(threads: int | None = 1, seconds: float = 0.2) -> Roofline:
    """Measure for about `seconds` seconds; each limit is the best of at least 20 short runs.

    `threads` includes the caller; None: all usable CPUs.  Needs memory for four times the largest
    cache, at least 64 and at most 512 MiB.
    """
    from nnefc.kernels.measure import limits
    from nnefc.kernels.measure.limits import CHAIN, SLOT, step_flops

    team = shared_team(threads)
    tiles = 8 * team.threads
    memory = _Memory()
    sums = Ref(Buffer("arena", SLOT * tiles), writes=True)
    chains = CHAIN.pack(sums=sums, steps=_STEPS)
    multiply = Launch(limits.multiply_add("float32"), chains, tiles)
    reads, copies = memory.reads(), memory.copies()
    run = _runner(team, [multiply, *reads, *copies])

    def best(start: int, count: int) -> float:
        return _fastest(run, start, count, seconds / 3)

    return Roofline(
        threads=team.threads,
        fma_gflops=tiles * _STEPS * step_flops("float32") / best(0, 1) / 1e9,
        read_gbps=_BLOCK_BYTES / best(1, len(reads)) / 1e9,
        copy_gbps=2 * _BLOCK_BYTES / best(1 + len(reads), len(copies)) / 1e9,
    )


def measure_dots(threads: int | None = 1, seconds: float = 0.1) -> float:
    """The peak of integer dot products: 10^9 products of bytes per second, in registers.

    Measures as `measure_roofline` does; `threads` includes the caller, None: all usable CPUs.
    """
    from nnefc.kernels.measure import limits
    from nnefc.kernels.measure.limits import CHAIN, SLOT, step_dot_macs

    team = shared_team(threads)
    tiles = 8 * team.threads
    sums = Ref(Buffer("arena", SLOT * tiles), writes=True)
    launches = [Launch(limits.dots(), CHAIN.pack(sums=sums, steps=_STEPS), tiles)]
    fastest = _fastest(_runner(team, launches), 0, 1, seconds)
    return tiles * _STEPS * step_dot_macs() / fastest / 1e9


def _fastest(run: Callable[[int, int], None], start: int, count: int, seconds: float) -> float:
    """Seconds of the fastest launch of `count` from number `start`, run one by one."""
    times: list[float] = []
    end = perf_counter() + seconds
    for i in itertools.cycle(range(start, start + count)):
        begin = perf_counter()
        run(i, 1)
        times.append(perf_counter() - begin)
        if len(times) >= max(count, _MIN_SAMPLES) and perf_counter() > end:
            break
    return min(times)


def memory_reader(nbytes: int, threads: int | None = 1) -> Callable[[], int]:
    """A function that reads about `nbytes` from memory, not from caches, and returns how many.

    Time it in alternation with a computation to compare both; `measure_roofline` reports the best
    moments instead.
    """
    count = max(1, round(nbytes / _BLOCK_BYTES))
    launches = _Memory().reads()
    launches *= -(-count // len(launches)) + 1
    run, starts = _runner(shared_team(threads), launches), itertools.count(0, count)
    first_launches = len(launches) - count + 1

    def read() -> int:
        run(next(starts) % first_launches, count)
        return count * _BLOCK_BYTES

    return read


class _Memory:
    """Memory of four times the largest cache, in blocks that launches read and copy."""

    def __init__(self) -> None:
        from nnefc.kernels.measure.limits import SLOT

        blocks = min(max(4 * largest_cache(), _MIN_BYTES), _MAX_BYTES) // _BLOCK_BYTES
        memory = Buffer("arena", blocks * _BLOCK_BYTES)
        self._blocks = [Ref(memory, _BLOCK_BYTES * i) for i in range(blocks)]
        self._sums = Ref(Buffer("arena", SLOT * (_BLOCK_BYTES // _TILE_BYTES)), writes=True)

    def reads(self) -> list[Launch]:
        """Launches that read all blocks."""
        from nnefc.kernels.measure import limits

        return [self._launch(limits.read(), x, self._sums) for x in self._blocks]

    def copies(self) -> list[Launch]:
        """Launches that copy each block to another one."""
        from nnefc.kernels.measure import limits

        half = len(self._blocks) // 2
        return [
            self._launch(limits.copy(), x, replace(self._blocks[i - half], writes=True))
            for i, x in enumerate(self._blocks)
        ]

    def _launch(self, kernel: Kernel, x: Ref, y: Ref) -> Launch:
        from nnefc.kernels.measure.limits import STREAM

        words = STREAM.pack(x=x, y=y, nbytes=_TILE_BYTES)
        return Launch(kernel, words, _BLOCK_BYTES // _TILE_BYTES)


def _runner(team: Team, launches: Sequence[Launch]) -> Callable[[int, int], None]:
    """A function `run(start, count)` that runs `count` launches from number `start` on a team."""
    code = compile_kernels(launch.kernel for launch in launches)
    plan = make_plan(Program(list(launches)), 0, 0, code.offset)
    arena = aligned(plan.arena_bytes, "measuring its speed")
    arena[:] = 0  # unwritten pages share one physical page
    memory = (ctypes.c_int64 * (STATUS_BYTES // 8 + plan.table.size))()
    bases = (ctypes.c_int64 * plan.table.size).from_buffer(memory, STATUS_BYTES)
    bases[BASE_CODE] = code.address
    bases[BASE_PARAMS] = plan.params.ctypes.data
    bases[BASE_ARENA] = arena.ctypes.data
    alive = plan, arena, code

    def run(start: int, count: int) -> None:
        first = alive[0].launches.ctypes.data + LAUNCH_BYTES * start
        team.run(first, count, ctypes.addressof(bases))

    return run
