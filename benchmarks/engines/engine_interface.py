"""The interface of engines: convert, load and run a network."""

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
"""Runs the network once on the inputs that `load` got."""


class NoLayerTimes(Exception):
    """An engine does not report times of layers."""


class Engine(ABC):
    """An engine, in a process of its own, for one network.

    `convert` and `warm` run in an earlier process, so that their memory is not counted.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    """Modules that must be importable."""
    one_thread: ClassVar[bool] = False
    """Whether the engine always computes with one thread."""

    def __init__(self) -> None:
        self.note = ""
        """The mode that the engine runs the network in, if it has several."""

    @classmethod
    def missing(cls) -> str | None:
        """Why the engine cannot be used; None if it can."""
        absent = [name for name in cls.modules if find_spec(name) is None]
        return f"{', '.join(absent)} is not installed" if absent else None

    @classmethod
    def import_modules(cls) -> None:
        """Import the engine, so that its code does not count as memory of a network."""
        for name in cls.modules:
            import_module(name)

    @abstractmethod
    def convert(self, network: Network) -> None:
        """Write the files that `load` reads, unless they exist."""

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:  # noqa: B027
        """Fill the engine's caches on disk; called after `convert`."""

    @abstractmethod
    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        """Load the network; returns a function that runs it on these inputs."""

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        """Like `load`, with the times of convolutions recorded for `convolution_seconds`."""
        raise NoLayerTimes(f"{self.title} does not report times of layers")

    def convolution_seconds(self) -> list[float]:
        """Seconds of all convolutions in each run since `load_profiled`, in order."""
        raise NoLayerTimes(f"{self.title} does not report times of layers")

    @abstractmethod
    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        """The results by name; `returned`: the value that a call returned."""


def fastest(calls: dict[str, Callable[[], Call]], runs: int = 3) -> tuple[str, Call]:
    """(name, call) of the fastest of several modes of an engine.

    Modes are loaded one after the other.  Those that fail are ignored; raises the first error if
    all fail.
    """
    measured: list[tuple[float, str, Call]] = []
    failures: list[Exception] = []
    for name, load in calls.items():
        try:
            call = load()
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
        measured.append((median(times), name, call))
    if not measured:
        raise failures[0]
    _, name, call = min(measured, key=lambda item: item[0])
    return name, call
