"""Measure calls of a model from several Python threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.measurements import percentile, repeat

if TYPE_CHECKING:
    from nnefc.ir import Value
    from nnefc.runtime.run.model import CompiledModel

_SAMPLES: Final = 1000
"""Runs whose times are written to JSON: enough to compare medians."""


def stream_facts(
    inputs: Sequence[Value], compiled: CompiledModel, streams: int, warmup: float, seconds: float
) -> dict[str, Any]:
    """Latencies of `streams` callers at once, each with random inputs of its own; for JSON."""
    from nnefc.runtime.memory.tensors import random_array

    def caller(seed: int) -> Callable[[], Any]:
        arrays = [random_array(value.type, seed, value.name) for value in inputs]
        return lambda: compiled(*arrays)

    times, elapsed = run_streams([caller(i) for i in range(streams)], warmup, seconds)
    ordered = sorted(times)
    return {
        "threads": compiled.threads,
        "streams": streams,
        "runs": len(times),
        "seconds": elapsed,
        "median_ms": 1e3 * percentile(ordered, 50),
        "p10_ms": 1e3 * percentile(ordered, 10),
        "p90_ms": 1e3 * percentile(ordered, 90),
        "p99_ms": 1e3 * percentile(ordered, 99),
        "min_ms": 1e3 * ordered[0],
        "max_ms": 1e3 * ordered[-1],
        "samples_ms": [round(1e3 * t, 6) for t in times[:: -(-len(times) // _SAMPLES)]],
    }


def run_streams(
    actions: Sequence[Callable[[], Any]], warmup: float, seconds: float
) -> tuple[list[float], float]:
    """(seconds of all runs, in the order of each action; seconds from the first start to the last
    end).

    Each action is repeated by a separate thread; all begin to measure at the same time.
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
        threading.Thread(target=measure, args=(i,), daemon=True) for i in range(len(actions))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [t for times in durations for t in times], max(ends) - min(starts)
