"""The worker process: answers the commands of `benchmarks.worker.Worker`.

python -m benchmarks.worker_process ENGINE DESCRIPTOR
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
    """The commands of a worker, as methods."""

    def __init__(self, engine: str) -> None:
        self._engine = ENGINES[engine]()
        self._network: Network | None = None
        self._call: Any = None
        self._before = 0
        self._turns: list[int] = []
        """Runs of each turn, with the first one, which is not counted."""

    def convert(self, network: Network) -> None:
        """Write the files that the engine loads."""
        self._engine.convert(network)

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        """Fill the engine's caches on disk for later processes."""
        self._engine.warm(network, threads, arrays)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Loaded:
        """Import the engine, then load the network and measure time and memory."""
        self._engine.import_modules()
        self._before = resident_bytes()
        self._network = network
        start = time.perf_counter()
        self._call = self._engine.load(network, threads, arrays)
        seconds = time.perf_counter() - start
        return Loaded(seconds, self._engine.note, getattr(self._engine, "arena", None))

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        """Load the network for `convolutions`, in place of one that was loaded before."""
        self._turns.clear()
        self._call = self._engine.load_profiled(network, threads, arrays)

    def convolutions(self) -> list[list[float]]:
        """Seconds of all convolutions in each run that `measure` counted, by turn."""
        seconds = self._engine.convolution_seconds()
        if len(seconds) != sum(self._turns):
            raise RuntimeError(f"{len(seconds)} convolutions in {sum(self._turns)} runs")
        ends = list(itertools.accumulate(self._turns))
        return [seconds[end - count + 1 : end] for end, count in zip(ends, self._turns)]

    def outputs(self) -> dict[str, Array]:
        """Run the network once; the results by name."""
        assert self._network is not None
        return self._engine.results(self._network, self._call())

    def measure(self, seconds: float, max_runs: int) -> list[float]:
        """Seconds of each run, for about `seconds`, after a run that is not counted."""
        call, clock = self._call, time.perf_counter
        call()
        times: list[float] = []
        end = clock() + seconds
        gc.disable()
        try:
            while not times or (clock() < end and len(times) < max_runs):
                start = clock()
                call()
                times.append(clock() - start)
        finally:
            gc.enable()
        self._turns.append(1 + len(times))
        return times

    def memory(self) -> tuple[int, int, int]:
        """(resident bytes before the network was loaded, peak since then, resident bytes now)"""
        return self._before, peak_bytes(), resident_bytes()


def serve(engine: str, descriptor: int) -> None:
    """Answer commands until the parent closes the connection."""
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
    """The resident memory of this process."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The peak resident memory of this process."""
    return _status("VmHWM")


def _status(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(match[1]) if match else 0


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
    # threads of engines may hang the exit of the interpreter
    os._exit(0)
