"""The side of a worker: answers the commands of `benchmarks.worker.Worker`.

python -m benchmarks.server ENGINE DESCRIPTOR
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.artifacts import Network
from benchmarks.engines import ENGINES
from benchmarks.worker import Loaded

Array = np.ndarray[Any, Any]


class Server:
    """Its methods are the commands."""

    def __init__(self, engine: str) -> None:
        self._engine = ENGINES[engine]()
        self._network: Network | None = None
        self._call: Any = None
        self._before = 0
        self._turns: list[int] = []
        """Runs of each turn, the first included, which does not count."""

    def convert(self, network: Network) -> None:
        """Make the files that the engine loads."""
        self._engine.convert(network)

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        """Fill what the engine keeps on disk for processes to come."""
        self._engine.warm(network, threads, arrays)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Loaded:
        """Make ready; the engine's own code is loaded before the time and memory count."""
        self._engine.import_modules()
        self._before = resident_bytes()
        self._network = network
        start = time.perf_counter()
        self._call = self._engine.load(network, threads, arrays)
        seconds = time.perf_counter() - start
        return Loaded(seconds, self._engine.note, getattr(self._engine, "arena", None))

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        """Make ready for `convolutions`; what was loaded before is let go."""
        self._turns.clear()
        self._call = self._engine.load_profiled(network, threads, arrays)

    def convolutions(self) -> list[list[float]]:
        """Seconds that convolutions took, of the runs that `measure` counted, by turn."""
        seconds = self._engine.convolution_seconds()
        if len(seconds) != sum(self._turns):
            raise RuntimeError(f"{len(seconds)} convolutions in {sum(self._turns)} runs")
        ends = list(itertools.accumulate(self._turns))
        return [seconds[end - count + 1 : end] for end, count in zip(ends, self._turns)]

    def outputs(self) -> dict[str, Array]:
        """The results of a run by name."""
        assert self._network is not None
        return self._engine.results(self._network, self._call())

    def measure(self, seconds: float, most: int) -> list[float]:
        """Seconds of runs that take about so long together, after one that does not count."""
        call, clock = self._call, time.perf_counter
        call()
        times: list[float] = []
        end = clock() + seconds
        gc.disable()
        try:
            while not times or (clock() < end and len(times) < most):
                start = clock()
                call()
                times.append(clock() - start)
        finally:
            gc.enable()
        self._turns.append(1 + len(times))
        return times

    def memory(self) -> tuple[int, int]:
        """(bytes resident before the network was loaded, the most that was since)"""
        return self._before, peak_bytes()


def serve(engine: str, descriptor: int) -> None:
    """Answer commands until the parent hangs up."""
    connection = Connection(descriptor)
    server = Server(engine)
    while True:
        try:
            command, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(server, command)(*arguments)
        except Exception as error:
            traceback.print_exc()
            text = " ".join(str(error).split()) or type(error).__name__
            answer = False, text if len(text) <= 300 else f"{text[:297]}..."
        connection.send(answer)


def resident_bytes() -> int:
    """Memory of this process that is resident now."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most memory of this process that was ever resident."""
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
    # engines' threads may hang at the end of the interpreter, and nothing is left to be done
    os._exit(0)
