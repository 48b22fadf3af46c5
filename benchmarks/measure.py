"""Run engines on a network: compare their results, measure time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.artifacts import Network
from benchmarks.engines import ENGINES
from benchmarks.statistics import Summary, summarise
from benchmarks.worker import EngineError, Loaded, Worker

Array = np.ndarray[Any, Any]

OURS = "nnefc"

TOLERANCE = 1e-3
"""Largest allowed difference of a result, relative to the largest output."""

PAUSE = 0.03
"""Seconds between turns, in which spinning threads of engines go to sleep."""


@dataclass(slots=True)
class Measured:
    """The measurement of an engine; `failure`: why the rest is empty."""

    engine: str
    failure: str = ""
    loaded: Loaded | None = None
    error: float = 0.0
    """Largest difference from the consensus, relative to the largest output."""
    turns: list[list[float]] = field(default_factory=list[list[float]])
    memory_before: int = 0
    memory_peak: int = 0
    memory_resident: int = 0
    """After the last run."""
    tolerance: float = TOLERANCE
    """Largest `error` of a right result."""

    @property
    def is_right(self) -> bool:
        return not self.failure and self.error <= self.tolerance

    @property
    def summary(self) -> Summary:
        return summarise(self.turns)


@dataclass(slots=True)
class Comparison:
    """The measurements of all engines on a network."""

    network: Network
    threads: int
    engines: dict[str, Measured]
    reals: Measured | None = None
    """nnefc on the network in float32, measured in turns with the engines."""

    @property
    def ours(self) -> Measured | None:
        measured = self.engines.get(OURS)
        return measured if measured and measured.turns else None

    @property
    def peers(self) -> list[Measured]:
        """The other engines, if their results are right."""
        return [m for m in self.engines.values() if m.engine != OURS and m.is_right and m.turns]

    @property
    def best_peer(self) -> Measured | None:
        """The fastest of `peers`."""
        return min(self.peers, key=lambda m: m.summary.median, default=None)


Progress = Callable[[str], None]
"""Called with a description of each step."""


def compare(
    network: Network,
    engines: Sequence[str],
    threads: int,
    *,
    rounds: int,
    turn: float,
    tolerance: float = TOLERANCE,
    reals: Network | None = None,
    progress: Progress = lambda _: None,
) -> Comparison:
    """Convert, load, check and measure a network; failures of engines are recorded.

    `rounds`: turns of each engine; `turn`: seconds of a turn; `tolerance`: the largest allowed
    difference of a result, relative to the largest output.  `reals`: the network in float32, which
    nnefc also runs; its results are not compared.
    """
    measurements = {name: Measured(name, tolerance=tolerance) for name in engines}
    ours = Measured(OURS) if reals else None
    arrays = network.arrays()
    with ExitStack() as stack:

        def start(network: Network, measured: Measured) -> Worker | None:
            try:
                name = measured.engine
                return _start(name, network, threads, arrays, measured, stack, progress)
            except EngineError as error:
                measured.failure = str(error)
                return None

        started = {name: start(network, each) for name, each in measurements.items()}
        workers = {name: worker for name, worker in started.items() if worker}
        other = start(reals, ours) if reals and ours else None
        progress("comparing results")
        _check(workers, measurements)
        pairs = [(worker, measurements[name]) for name, worker in workers.items()]
        if other and ours:
            pairs.append((other, ours))
        for i in range(rounds):
            for worker, measured in pairs:
                progress(f"{i + 1}/{rounds} {measured.engine}")
                _take_turn(worker, measured, turn)
        for worker, measured in pairs:
            if not measured.failure:
                before, peak, resident = worker.call("memory")
                measured.memory_before, measured.memory_peak = before, peak
                measured.memory_resident = resident
    return Comparison(network, threads, measurements, ours)


def _take_turn(worker: Worker, measured: Measured, turn: float) -> None:
    if measured.failure:
        return
    time.sleep(PAUSE)
    try:
        measured.turns.append(worker.call("measure", turn, 100_000))
    except EngineError as error:
        measured.failure = str(error)
        measured.turns.clear()


def _start(
    name: str,
    network: Network,
    threads: int,
    arrays: dict[str, Array],
    measured: Measured,
    stack: ExitStack,
    progress: Progress,
) -> Worker:
    reason = ENGINES[name].missing()
    if reason:
        raise EngineError(reason)
    progress(f"converting for {name}")
    converter = Worker(name, threads)
    try:
        converter.call("convert", network)
        converter.call("warm", network, threads, arrays)
    finally:
        converter.close()
    progress(f"loading {name}")
    worker = Worker(name, threads)
    stack.callback(worker.close)
    measured.loaded = worker.call("load", network, threads, arrays)
    return worker


def _check(workers: dict[str, Worker], measurements: dict[str, Measured]) -> None:
    """Run every engine once, and record the difference of its results from the consensus."""
    results: dict[str, dict[str, Array]] = {}
    for name, worker in workers.items():
        try:
            results[name] = worker.call("outputs")
        except EngineError as error:
            measurements[name].failure = str(error)
    for name, error in disagreements(results).items():
        measurements[name].error = error


def disagreements(results: dict[str, dict[str, Array]]) -> dict[str, float]:
    """The largest difference of each engine from the consensus, relative to the largest item.

    The consensus of an item is its median over engines.  The difference is infinite where shapes
    differ from the most frequent one.
    """
    errors = dict.fromkeys(results, 0.0)
    for output in dict.fromkeys(key for each in results.values() for key in each):
        shapes = [each[output].shape for each in results.values() if output in each]
        shape = max(shapes, key=shapes.count)
        fitting = {
            name: each[output]
            for name, each in results.items()
            if output in each and each[output].shape == shape
        }
        consensus = np.nanmedian(np.stack(list(fitting.values())), axis=0)
        scale = float(np.max(np.abs(consensus), initial=0.0)) or 1.0
        for name in results:
            error = float("inf")
            if name in fitting:
                difference = np.abs(fitting[name] - consensus)
                difference[np.isnan(difference)] = np.inf
                error = float(np.max(difference, initial=0.0)) / scale
            errors[name] = max(errors[name], error)
    return errors
