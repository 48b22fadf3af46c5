"""Measure calls of a model from several Python threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from nnefc.cli.bench.machine_load import LoadMeter
from nnefc.cli.support.measurements import percentile, repeat
from nnefc.cli.support.printing import count, status

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Value
    from nnefc.runtime.run.compiled_model import CompiledModel

    Array = np.ndarray[Any, Any]

Action = TypeVar("Action", bound=Callable[[], Any])

_SAMPLES: Final = 1000
"""Runs whose times are written to JSON: enough to compare medians."""


class Load(NamedTuple):
    """How a model is called."""

    streams: int
    warmup: float
    """Seconds."""
    seconds: float
    given: Mapping[str, Array]
    """Arrays for some inputs by name; the other inputs are random."""

    def text(self, threads: int) -> str:
        """What is measured, for a line on the terminal."""
        streams = f" from {self.streams} streams" if self.streams > 1 else ""
        seconds = self.warmup + self.seconds
        return f"measuring {count(threads, 'thread')}{streams} for {seconds:g} s"


def stream_facts(inputs: Sequence[Value], compiled: CompiledModel, load: Load) -> dict[str, Any]:
    """Latencies of several callers at once, each with random inputs of its own; for JSON.

    `calls_per_second` is the reciprocal of the mean for one stream.  For several it counts the
    calls within the elapsed time, because callers also wait for each other between calls.
    """
    from nnefc.runtime.memory.random_inputs import random_inputs

    types = {value.name: value.type for value in inputs}

    def caller(seed: int) -> Callable[[], Any]:
        arrays = random_inputs(compiled, types, seed, load.given)
        return lambda: compiled(*arrays)

    meter = LoadMeter.start()
    actions = [caller(i) for i in range(load.streams)]
    with status(load.text(compiled.threads)):
        times, elapsed = run_streams(actions, load.warmup, load.seconds)
    others = meter.others()
    return {
        "threads": compiled.threads,
        "streams": load.streams,
        "other_load": others,
        **timing_facts(times, sum(times) if load.streams == 1 else elapsed, elapsed),
    }


def timing_facts(times: Sequence[float], in_calls: float, elapsed: float) -> dict[str, Any]:
    """Statistics of the seconds of calls, for JSON.

    `in_calls`: the seconds that `calls_per_second` divides their number by.
    """
    ordered = sorted(times)
    return {
        "runs": len(times),
        "seconds": elapsed,
        "calls_per_second": len(times) / in_calls,
        "mean_ms": 1e3 * sum(times) / len(times),
        "median_ms": 1e3 * percentile(ordered, 50),
        **{f"p{p}_ms": 1e3 * percentile(ordered, p) for p in (10, 90, 95, 99)},
        "min_ms": 1e3 * ordered[0],
        "max_ms": 1e3 * ordered[-1],
        "samples_ms": [round(1e3 * t, 6) for t in times[:: -(-len(times) // _SAMPLES)]],
    }


def run_streams(
    actions: Sequence[Action],
    warmup: float,
    seconds: float,
    repeat: Callable[[Action, float], list[float]] = repeat,
) -> tuple[list[float], float]:
    """(seconds of all runs, in the order of each action; seconds from the first start to the last
    end).

    Each action is repeated by a separate thread, with `repeat(action, seconds)`; all begin to
    measure at the same time.
    """
    if len(actions) == 1:
        repeat(actions[0], warmup)
        start = time.perf_counter()
        return repeat(actions[0], seconds), time.perf_counter() - start
    barrier = threading.Barrier(len(actions))
    durations: list[list[float]] = [[] for _ in actions]
    starts, ends = [0.0] * len(actions), [0.0] * len(actions)
    errors: list[BaseException] = []

    def measure(i: int) -> None:
        try:
            repeat(actions[i], warmup)
            barrier.wait()
            starts[i] = time.perf_counter()
            durations[i] = repeat(actions[i], seconds)
            ends[i] = time.perf_counter()
        except threading.BrokenBarrierError:
            pass  # another thread failed
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [
        threading.Thread(target=copy_context().run, args=(measure, i), daemon=True)
        for i in range(len(actions))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [t for times in durations for t in times], max(ends) - min(starts)
