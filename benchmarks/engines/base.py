"""What an engine is to the benchmarks: it converts, loads and runs a network."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any, ClassVar

import numpy as np

from benchmarks.artifacts import Network

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]
"""Runs the network once, from the inputs given at load to arrays of results."""


class NotTold(Exception):
    """An engine does not say how long its parts take."""


class Engine(ABC):
    """An implementation that networks are run with.

    An object lives in a process of its own, for one network.  `convert` and `warm` are called
    in another process before, so that what it needs does not count as memory of the engine.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    """What must be importable."""
    one_thread: ClassVar[bool] = False
    """Whether the engine computes with one thread whatever it is told."""

    def __init__(self) -> None:
        self.note = ""
        """How the network is run, where there was a choice."""

    @classmethod
    def missing(cls) -> str | None:
        """Why the engine cannot be used here; None if it can."""
        absent = [name for name in cls.modules if find_spec(name) is None]
        return f"{', '.join(absent)} is not installed" if absent else None

    @classmethod
    def import_modules(cls) -> None:
        """Load the engine's code, of which memory is not counted for a network."""
        for name in cls.modules:
            import_module(name)

    @abstractmethod
    def convert(self, network: Network) -> None:
        """Write the files that `load` reads, if they are not there."""

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:  # noqa: B027
        """Fill what the engine keeps on disk from one process to the next; after `convert`."""

    @abstractmethod
    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        """Make ready to run on those inputs."""

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        """Like `load`, but so that `convolution_seconds` can tell what runs took."""
        raise NotTold(f"{self.title} does not tell the times of layers")

    def convolution_seconds(self) -> list[float]:
        """Seconds that convolutions took in each run since `load_profiled`, in order."""
        raise NotTold(f"{self.title} does not tell the times of layers")

    @abstractmethod
    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        """The results by name from what a call returned."""


def fastest(calls: dict[str, Callable[[], Call]], runs: int = 3) -> tuple[str, Call]:
    """The name of the fastest of several ways to run a network, and that way.

    They are made one after the other; those that cannot be made do not count, unless all.
    """
    found: list[tuple[float, str, Call]] = []
    failures: list[Exception] = []
    for name, make in calls.items():
        try:
            call = make()
            for _ in range(2):
                call()
        except Exception as error:
            failures.append(error)
            continue
        times: list[float] = []
        for _ in range(runs):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found.append((median(times), name, call))
    if not found:
        raise failures[0]
    _, name, call = min(found, key=lambda item: item[0])
    return name, call
