"""What this machine can do at most: multiply-adds and memory traffic per second, measured.

Speeds change from hour to hour on machines that are shared, and with the number of threads, so
the limits that something is compared with are measured in the same run.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_PARAMS, LAUNCH_BYTES
from nnefc.kernels.template import Kernel
from nnefc.program.program import Buffer, Launch, Program, Ref
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.runtime.machine.resources import largest_cache
from nnefc.runtime.plan.planner import make_plan
from nnefc.runtime.run.team import Team, shared_team
from nnefc.support.array_memory import aligned

_STEPS = 20_000
"""Steps of a tile of multiply-adds: some 50 us."""
_PIECE = 1 << 20
"""Bytes of a tile that reads or copies."""
_PART = 8 * _PIECE
"""Bytes that are timed together: some 300 us, as other processes interrupt us."""
_LEAST, _MOST = 64 << 20, 512 << 20
"""Bytes that are read one after the other, at least and at most."""
_SAMPLES = 20
"""Launches of a kind, at least: the only one may be the one that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """What `threads` threads reach together when they do one thing only; 1 G = 10^9."""

    threads: int
    fma_gflops: float
    """Floating-point operations of multiply-adds (two each) on float32, without memory."""
    read_gbps: float
    """Bytes read from memory."""
    copy_gbps: float
    """Bytes read plus bytes written while memory is copied past the caches."""

    def peak_gflops(self, itemsize: int) -> float:
        """The same for items of so many bytes: a vector has fewer of them if they are longer."""
        return self.fma_gflops * 4 / itemsize


def measure_roofline(threads: int | None = 1, seconds: float = 0.2) -> Roofline:
    """Measure for about so long, or longer for the best of some short runs, as limits are.

    `threads` includes the caller; None: all usable CPUs.  Needs memory for four times the largest
    cache, at least 64 and at most 512 MiB.
    """
    from nnefc.kernels.measure import limits
    from nnefc.kernels.measure.limits import CHAIN, SLOT, step_flops

    crew = shared_team(threads)
    tiles = 8 * crew.threads
    memory = _Memory()
    sums = Ref(Buffer("arena", SLOT * tiles), writes=True)
    chains = CHAIN.pack(sums=sums, steps=_STEPS)
    multiply = Launch(limits.multiply_add("float32"), chains, tiles)
    reads, copies = memory.reads(), memory.copies()
    run = _runner(crew, [multiply, *reads, *copies])

    def best(start: int, count: int) -> float:
        """Seconds of the quickest of some launches, which run one by one, again and again."""
        times: list[float] = []
        end = perf_counter() + seconds / 3
        for i in itertools.cycle(range(start, start + count)):
            begin = perf_counter()
            run(i, 1)
            times.append(perf_counter() - begin)
            if len(times) >= max(count, _SAMPLES) and perf_counter() > end:
                break
        return min(times)

    return Roofline(
        threads=crew.threads,
        fma_gflops=tiles * _STEPS * step_flops("float32") / best(0, 1) / 1e9,
        read_gbps=_PART / best(1, len(reads)) / 1e9,
        copy_gbps=2 * _PART / best(1 + len(reads), len(copies)) / 1e9,
    )


def memory_reader(nbytes: int, threads: int | None = 1) -> Callable[[], int]:
    """A function that reads about `nbytes` from memory, not from caches, and returns how many.

    Its time is comparable with that of a computation timed in alternation with it;
    `measure_roofline` reports the limits of the best moments instead.
    """
    count = max(1, round(nbytes / _PART))
    parts = _Memory().reads()
    parts *= -(-count // len(parts)) + 1
    run, starts = _runner(shared_team(threads), parts), itertools.count(0, count)
    places = len(parts) - count + 1

    def read() -> int:
        run(next(starts) % places, count)
        return count * _PART

    return read


class _Memory:
    """Memory for four times the largest cache, in parts that launches read and copy."""

    def __init__(self) -> None:
        from nnefc.kernels.measure.limits import SLOT

        parts = min(max(4 * largest_cache(), _LEAST), _MOST) // _PART
        memory = Buffer("arena", parts * _PART)
        self._parts = [Ref(memory, _PART * i) for i in range(parts)]
        self._sums = Ref(Buffer("arena", SLOT * (_PART // _PIECE)), writes=True)

    def reads(self) -> list[Launch]:
        """All of it, part for part."""
        from nnefc.kernels.measure import limits

        return [self._launch(limits.read(), x, self._sums) for x in self._parts]

    def copies(self) -> list[Launch]:
        """Each part to another one."""
        from nnefc.kernels.measure import limits

        half = len(self._parts) // 2
        return [
            self._launch(limits.copy(), x, replace(self._parts[i - half], writes=True))
            for i, x in enumerate(self._parts)
        ]

    def _launch(self, kernel: Kernel, x: Ref, y: Ref) -> Launch:
        from nnefc.kernels.measure.limits import STREAM

        words = STREAM.pack(x=x, y=y, nbytes=_PIECE)
        return Launch(kernel, words, _PART // _PIECE)


def _runner(crew: Team, launches: Sequence[Launch]) -> Callable[[int, int], None]:
    """`run(start, count)`: let a team run so many launches from number `start` on."""
    code = compile_kernels(launch.kernel for launch in launches)
    plan = make_plan(Program(list(launches)), 0, 0, code.offset)
    arena = aligned(plan.arena_bytes, "measuring its speed")
    arena[:] = 0  # pages that nobody wrote are one and the same
    bases = (ctypes.c_int64 * plan.table.size)()
    bases[BASE_CODE] = code.address
    bases[BASE_PARAMS] = plan.params.ctypes.data
    bases[BASE_ARENA] = arena.ctypes.data
    kept = plan, arena, code

    def run(start: int, count: int) -> None:
        first = kept[0].launches.ctypes.data + LAUNCH_BYTES * start
        crew.run(first, count, ctypes.addressof(bases))

    return run
