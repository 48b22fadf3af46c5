"""What this machine can do at most: multiply-adds and memory traffic per second, measured.

Speeds change from hour to hour on machines that are shared, and with the number of threads, so
the limits that something is compared with are measured in the same run.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_PARAMS, LAUNCH_BYTES
from nnefc.kernels.template import Kernel
from nnefc.runtime.code import compile_kernels
from nnefc.runtime.plan import make_plan
from nnefc.runtime.program import Buffer, Launch, Program, Ref
from nnefc.runtime.team import team
from nnefc.runtime.tensors import aligned

_STEPS = 20_000
"""Steps of a tile of multiply-adds: some 50 us."""
_PIECE = 1 << 20
"""Bytes of a tile that reads or copies."""
_LEAST, _MOST = 64 << 20, 512 << 20
"""Bytes that are read, at least and at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
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


def measure(threads: int | None = 1, seconds: float = 0.2) -> Machine:
    """Measure for about so long; the best of many short runs, as limits are.

    `threads` includes the caller; None: all usable CPUs.  Needs memory for four times the largest
    cache, at least 64 and at most 512 MiB.
    """
    from nnefc.kernels.machine import CHAIN, SLOT, STREAM, step_flops

    pieces = min(max(4 * largest_cache(), _LEAST), _MOST) // _PIECE
    crew = team(threads)
    tiles = 8 * crew.threads
    sums = Buffer("arena", SLOT * max(tiles, pieces))
    x = Buffer("arena", pieces * _PIECE)
    half = x.nbytes // 2
    launches = [
        Launch(
            Kernel("machine.multiply_add", ("float32",)),
            CHAIN.pack(sums=Ref(sums, writes=True), steps=_STEPS),
            tiles,
        ),
        Launch(
            Kernel("machine.read"),
            STREAM.pack(x=Ref(x), y=Ref(sums, writes=True), nbytes=_PIECE),
            pieces,
        ),
        Launch(
            Kernel("machine.copy"),
            STREAM.pack(x=Ref(x), y=Ref(x, half, writes=True), nbytes=_PIECE),
            pieces // 2,
        ),
    ]
    code = compile_kernels(launch.kernel for launch in launches)
    plan = make_plan(Program(launches), 0, 0, code.offset)
    memory = aligned(plan.arena.nbytes, "measuring its speed")
    memory[:] = 0  # pages that nobody wrote are one and the same
    bases = (ctypes.c_int64 * plan.table.size)()
    bases[BASE_CODE] = code.address
    bases[BASE_PARAMS] = plan.params.ctypes.data
    bases[BASE_ARENA] = memory.ctypes.data
    work = [float(tiles * _STEPS * step_flops("float32")), float(x.nbytes), 2.0 * half]
    best: list[float] = []
    for i, amount in enumerate(work):
        at = plan.launches.ctypes.data + LAUNCH_BYTES * i
        end = perf_counter() + seconds / len(work)
        times: list[float] = []
        while len(times) < 3 or perf_counter() < end:
            start = perf_counter()
            crew.run(at, 1, ctypes.addressof(bases))
            times.append(perf_counter() - start)
        best.append(amount / min(times) / 1e9)
    fma, read, copy = best
    return Machine(threads=crew.threads, fma_gflops=fma, read_gbps=read, copy_gbps=copy)


def largest_cache() -> int:
    """Bytes of the largest cache that the system tells about; 0 if it tells nothing."""
    return max(_cache_sizes(), default=0)


def _cache_sizes() -> Iterator[int]:
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            size = re.fullmatch(r"(\d+)([KMG]?)\s*", file.read_text())
        except OSError:
            continue
        if size:
            yield int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
