"""`nnefc bench`: how long does an inference take?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.bench.tables import print_facts
from nnefc.cli.support.artifacts import (
    ArtifactModel,
    DocumentModel,
    ModelOrArtifact,
    OpenedModel,
    open_model,
)
from nnefc.cli.support.batch import Batch
from nnefc.cli.support.measurements import (
    percentile,
    repeat,
    require_seconds,
)
from nnefc.cli.support.options import (
    Accuracy,
    Dialect,
    Json,
    LimitOptions,
    RandomWeights,
    Scalar,
    Shapes,
    parse_limits,
    parse_shapes,
    usage,
)
from nnefc.cli.support.printing import print_json

if TYPE_CHECKING:
    from nnefc.runtime.run.model import CompiledModel

_SAMPLES = 1000
"""Runs whose times are kept in JSON: enough to compare medians."""

ThreadCounts = Annotated[
    str | None,
    typer.Option(
        "--threads",
        "-t",
        metavar="N[,N...]",
        help="Threads to use (default: all CPUs); each of several numbers is measured.",
    ),
]


def bench(
    context: typer.Context,
    model: ModelOrArtifact,
    seconds: Annotated[float, typer.Option("--duration", help="Seconds to measure.")] = 3.0,
    warmup: Annotated[float, typer.Option(help="Seconds to run before measuring.")] = 0.5,
    streams: Annotated[
        int,
        typer.Option(
            metavar="K", min=1, max=1024, help="Python threads that call the model at once."
        ),
    ] = 1,
    cold: Annotated[
        bool, typer.Option(help="Measure the start of a fresh process up to its first result.")
    ] = True,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", readable=False, help="Compare with what --json printed earlier."
        ),
    ] = None,
    random_weights: RandomWeights = None,
    batch: Batch = None,
    shape: Shapes = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: ThreadCounts = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Measure the latency and throughput of a compiled model on random inputs.

    A comparison says faster or slower if the ratio of the medians differs from 1 by at least 1 %,
    with a confidence of 99 % (bootstrap). Runs with the same number of threads and streams are
    compared; there is no verdict for another model or batch.

    For an artifact, the cold start is that of a process that loads it and compiles nothing.

    Examples:

        nnefc bench net.nnef.tgz

        nnefc bench net.nnefc

        nnefc bench graph.nnef --random-weights 1 --threads 1,2 --duration 10

        nnefc bench net.nnef.tgz --batch 8 --streams 4 --threads 1

        nnefc bench net.nnef.tgz --json > before.json

        nnefc bench net.nnef.tgz --compare before.json
    """
    from nnefc.cli.bench.cold_start import cold_start_of_artifact
    from nnefc.cli.bench.comparison import compare_facts, print_comparison, read_facts
    from nnefc.ops.tools.cost import macs

    require_seconds("--duration", seconds)
    require_seconds("--warmup", warmup, zero=True)
    counts = parse_threads(threads)
    earlier = None if compare is None else read_facts(compare)
    given = open_model(context)
    results: list[dict[str, Any]] = []
    facts: dict[str, Any] = {
        "model": model,
        "batch": _batch(given),
        "macs": sum(macs(op) for op in given.graph.ops),
        "machine": _machine(),
        "results": results,
    }
    for number in counts:
        compiled = given.compiled(number)
        facts["arena_bytes"] = compiled.arena_bytes
        results.append(_measure(given, compiled, facts, streams, warmup, seconds))
    if cold and not (isinstance(given, DocumentModel) and given.keeps_states):
        stages = (
            cold_start_of_artifact(model, counts[0])
            if isinstance(given, ArtifactModel)
            else _cold_start(
                model, given.shapes, random_weights, scalar, counts[0], accuracy, dialect, limit
            )
        )
        facts["cold_start_ms"] = {stage: 1e3 * t for stage, t in stages.items()}
    comparison = None if earlier is None else compare_facts(earlier, facts)
    if json:
        print_json(facts if comparison is None else {**facts, "comparison": comparison})
        return
    print_facts(facts)
    if comparison is not None:
        print_comparison(str(compare), comparison)


def parse_threads(option: str | None) -> list[int | None]:
    """`--threads 1,2`; None stands for all CPUs."""
    if option is None:
        return [None]
    try:
        counts = [int(item) for item in option.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise usage(f"--threads {option}: expected positive integers, as in 1,2")
    return list(dict.fromkeys(counts))


def _batch(given: OpenedModel) -> int:
    """How many inputs a call takes: the first dimension of the first external."""
    first = given.inputs[0].type.dims if given.inputs else ()
    return first[0] if first else 1


def _measure(
    given: OpenedModel,
    compiled: CompiledModel,
    facts: dict[str, Any],
    streams: int,
    warmup: float,
    seconds: float,
) -> dict[str, Any]:
    """Latencies and throughput of `streams` callers at once."""
    from nnefc.runtime.memory.tensors import random_array

    def caller(seed: int) -> Callable[[], Any]:
        inputs = [random_array(v.type, seed, v.name) for v in given.inputs]
        return lambda: compiled(*inputs)

    times, elapsed = run_streams([caller(i) for i in range(streams)], warmup, seconds)
    ordered = sorted(times)
    calls = len(times) / elapsed
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
        "per_second": facts["batch"] * calls,
        "gflops": 2 * facts["macs"] * calls / 1e9,
        "samples_ms": [round(1e3 * t, 6) for t in times[:: -(-len(times) // _SAMPLES)]],
    }


def run_streams(
    actions: Sequence[Callable[[], Any]], warmup: float, seconds: float
) -> tuple[list[float], float]:
    """Durations of all runs, in the order of each action, and the time in which they ran.

    Each action is repeated by a thread of its own; all begin to measure at the same time.
    """
    if len(actions) == 1:
        repeat(actions[0], warmup)
        start = time.perf_counter()
        return repeat(actions[0], seconds), time.perf_counter() - start
    together = threading.Barrier(len(actions))
    found: list[list[float]] = [[] for _ in actions]
    starts, ends = [0.0] * len(actions), [0.0] * len(actions)
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            repeat(actions[i], warmup)
            together.wait()
            starts[i] = time.perf_counter()
            found[i] = repeat(actions[i], seconds)
            ends[i] = time.perf_counter()
        except threading.BrokenBarrierError:
            pass  # another one failed
        except BaseException as error:
            errors.append(error)
            together.abort()

    crew = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(actions))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if errors:
        raise errors[0]
    return [t for times in found for t in times], max(ends) - min(starts)


def _cold_start(
    model: str,
    shapes: Sequence[str],
    random_weights: int | None,
    scalar: str,
    threads: int | None,
    accuracy: str,
    dialect: str,
    limit: Sequence[str] | None,
) -> dict[str, float]:
    from dataclasses import asdict

    from nnefc.cli.bench.cold_start import cold_start

    return cold_start(
        model,
        import_options={
            "shapes": parse_shapes(shapes),
            "random_weights": random_weights,
            "scalar": scalar,
            "dialect": dialect,
        },
        compile_options={"threads": threads, "accuracy": accuracy},
        limits=asdict(parse_limits(limit)),
    )


def _machine() -> dict[str, Any]:
    """What the numbers are of."""
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.target.processor import model_name
    from nnefc.runtime.machine.resources import usable_cpus
    from nnefc.support.package import VERSION

    return {
        "nnefc": VERSION,
        "isa": host().name,
        "cpu": model_name(),
        "cpus": usable_cpus(),
    }
