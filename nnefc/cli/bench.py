"""`nnefc bench`: how long does an inference take?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.common import (
    Json,
    LimitOptions,
    Model,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    compile_graph,
    console,
    load,
    print_json,
    print_table,
    size,
    table,
    usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def bench(
    model: Model,
    duration: Annotated[float, typer.Option(help="Seconds to measure.")] = 3.0,
    warmup: Annotated[float, typer.Option(help="Seconds to run before measuring.")] = 0.5,
    random_weights: RandomWeights = None,
    shape: Shapes = None,
    scalar: Scalar = "float32",
    threads: Threads = None,
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Measure the latency and throughput of a compiled model on random inputs.

    Examples:

        nnefc bench net.nnef.tgz

        nnefc bench graph.nnef --random-weights 1 --threads 1 --duration 10 --json
    """
    from nnefc.cli.run import random_array

    if not 0 < duration <= 3600:
        raise usage(f"--duration {duration:g}: must be more than 0 seconds and at most 3600")
    if not 0 <= warmup <= 3600:
        raise usage(f"--warmup {warmup:g}: must be between 0 and 3600 seconds")
    start = time.perf_counter()
    graph = load(model, shapes=shape, random_weights=random_weights, scalar=scalar, limits=limit)
    imported = time.perf_counter()
    compiled = compile_graph(graph, threads)
    ready = time.perf_counter()
    inputs = [random_array(value.type, 0, value.name) for value in graph.inputs]
    compiled(*inputs)
    first = time.perf_counter()
    _repeat(lambda: compiled(*inputs), warmup)
    seconds = sorted(_repeat(lambda: compiled(*inputs), duration))
    batch = graph.inputs[0].type.dims[0] if graph.inputs and graph.inputs[0].type.dims else 1
    facts: dict[str, Any] = {
        "model": model,
        "threads": compiled.threads,
        "runs": len(seconds),
        "median_ms": 1e3 * _percentile(seconds, 50),
        "p10_ms": 1e3 * _percentile(seconds, 10),
        "p90_ms": 1e3 * _percentile(seconds, 90),
        "p99_ms": 1e3 * _percentile(seconds, 99),
        "min_ms": 1e3 * seconds[0],
        "per_second": batch / _percentile(seconds, 50),
        "arena_bytes": compiled.arena_bytes,
        "import_ms": 1e3 * (imported - start),
        "compile_ms": 1e3 * (ready - imported),
        "first_run_ms": 1e3 * (first - ready),
    }
    if json:
        print_json(facts)
        return
    view = table("median", "p10", "p90", "p99", "min", "inputs/s", "runs", "threads", "arena")
    view.add_row(
        *(f"{facts[key]:.3f} ms" for key in ("median_ms", "p10_ms", "p90_ms", "p99_ms", "min_ms")),
        f"{facts['per_second']:.1f}",
        str(facts["runs"]),
        str(facts["threads"]),
        size(facts["arena_bytes"]),
    )
    out = console()
    print_table(out, view)
    out.print(
        f"cold start: import {facts['import_ms']:.0f} ms, compile {facts['compile_ms']:.0f} ms, "
        f"first run {facts['first_run_ms']:.1f} ms"
    )


def _repeat(action: Callable[[], Any], seconds: float) -> list[float]:
    """Durations of as many runs as fit into a time, at least one."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return times


def _percentile(ordered: list[float], percent: float) -> float:
    """Nearest-rank percentile of sorted values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
