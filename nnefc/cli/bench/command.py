"""`nnefc bench`: latency and throughput of a compiled model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nnefc.cli.bench.parallel_calls import Load, stream_facts
from nnefc.cli.bench.tables import print_facts
from nnefc.cli.support.inputs import read_files
from nnefc.cli.support.measurements import require_seconds
from nnefc.cli.support.opened_model import (
    ArtifactModel,
    DocumentModel,
    DynamicArtifactModel,
    OpenedModel,
    open_model,
)
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions, InputOptions
from nnefc.cli.support.options import (
    Duration,
    Json,
    ModelOrArtifact,
    parse_limits,
    parse_shapes,
    parse_symbols,
    usage,
)
from nnefc.cli.support.printing import console, print_json, status
from nnefc.cli.support.symbols import naming_chosen, print_symbols, symbol_facts

Warmup = Annotated[float, typer.Option(help="Seconds to run before measuring.")]
Streams = Annotated[
    int,
    typer.Option(metavar="K", min=1, max=1024, help="Python threads that call the model at once."),
]
Cold = Annotated[
    bool, typer.Option(help="Measure the start of a fresh process up to its first result.")
]
Compare = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json", readable=False, help="Compare with the output of an earlier --json."
    ),
]
ThreadCounts = Annotated[
    str | None,
    typer.Option(
        "--threads",
        "-t",
        metavar="N[,N...]",
        help="Threads to use (default: all CPUs); several numbers are measured one by one.",
    ),
]


def bench(
    context: typer.Context,
    model: ModelOrArtifact,
    seconds: Duration = 3.0,
    warmup: Warmup = 0.5,
    streams: Streams = 1,
    cold: Cold = True,
    compare: Compare = None,
    threads: ThreadCounts = None,
    json: Json = False,
    *,
    inputs: InputOptions,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Measure the latency and throughput of a compiled model.

    Inputs without --input are random. A note tells if other processes kept the processors busy.

    A comparison says faster or slower if the ratio of the medians differs from 1 by at least 1 %,
    with a confidence of 99 % (bootstrap). Runs with the same number of threads and streams are
    compared; there is no verdict for another model or batch.

    Of a model with states, a first call is measured, such as a prompt, and later ones, such as
    tokens. --symbol S=128,1 sets a symbol for both. Symbols without a value get small ones.

    For an artifact, the cold start is that of a process that loads it.

    Examples:

        nnefc bench net.nnefc -i image=cat.png

        nnefc bench graph.nnef --random-weights 1 --threads 1,2 --duration 10

        nnefc bench net.nnef.tgz --batch 8 --streams 4 --threads 1

        nnefc bench decoder.nnef.tgz --symbol S=128

        nnefc bench net.nnef.tgz --json > before.json

        nnefc bench net.nnef.tgz --compare before.json
    """
    require_seconds("--duration", seconds)
    require_seconds("--warmup", warmup, zero=True)
    counts, earlier = parse_threads(threads), _earlier(compare)
    pictures = inputs.pictures()
    opened = open_model(context, model, document, compiling, files=inputs.input, chooses=True)
    given = read_files(opened.inputs, inputs.input, pictures)
    with naming_chosen(opened):
        facts = _measure(opened, model, counts, Load(streams, warmup, seconds, given))
    if cold and (isinstance(opened, ArtifactModel) or not opened.needs_session):
        with status("measuring the start of a fresh process"):
            stages = _cold_start(model, document, opened, counts[0])
        facts["cold_start_ms"] = {stage: 1e3 * t for stage, t in stages.items()}
    _report(facts, earlier, compare, json)


def _earlier(file: Path | None) -> dict[str, Any] | None:
    """The facts of an earlier run in a file."""
    from nnefc.cli.bench.comparison import read_facts

    return None if file is None else read_facts(file)


def _report(
    facts: dict[str, Any], earlier: dict[str, Any] | None, file: Path | None, json: bool
) -> None:
    """Print the facts, and their comparison with those of an earlier run in `file`."""
    from nnefc.cli.bench.comparison import compare_facts, print_comparison

    comparison = None if earlier is None else compare_facts(earlier, facts)
    if json:
        print_json(facts if comparison is None else {**facts, "comparison": comparison})
        return
    print_symbols(console(), facts)
    if "call" in facts["results"][0]:
        from nnefc.cli.bench.sessions import print_session

        print_session(facts)
    else:
        print_facts(facts)
    if comparison is not None:
        print_comparison(str(file), comparison)


def parse_threads(option: str | None) -> list[int | None]:
    """The numbers of `--threads 1,2`, each once; None stands for all CPUs."""
    if option is None:
        return [None]
    try:
        counts = [int(item) for item in option.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise usage(f"--threads {option}: expected positive integers, as in 1,2")
    return list(dict.fromkeys(counts))


def _measure(
    opened: OpenedModel,
    model: str,
    counts: Sequence[int | None],
    load: Load,
) -> dict[str, Any]:
    """Measure a model with each number of threads; facts for JSON."""
    from nnefc.ops.tools.cost import macs

    results: list[dict[str, Any]] = []
    facts: dict[str, Any] = {
        "model": model,
        "batch": _batch(opened),
        "inputs": {v.name: "file" if v.name in load.given else "random" for v in opened.inputs},
        "macs": sum(macs(op) for op in opened.graph.ops),
        **symbol_facts(opened),
        "machine": _machine(),
        "results": results,
    }
    if isinstance(opened, DocumentModel) and opened.calls is not None:
        from nnefc.cli.bench.sessions import session_facts

        for threads in counts:
            results += session_facts(opened, opened.calls, threads, load)
        return facts
    for threads in counts:
        compiled = opened.compile(threads)
        facts["arena_bytes"] = compiled.arena_bytes
        result = stream_facts(opened.inputs, compiled, load)
        calls = result.pop("calls_per_second")
        rates = {"per_second": facts["batch"] * calls, "gflops": 2 * facts["macs"] * calls / 1e9}
        results.append({**result, **rates})
    return facts


def _batch(opened: OpenedModel) -> int:
    """The first extent of the first input; 1 without one."""
    first = opened.inputs[0].type.dims if opened.inputs else ()
    return first[0] if first else 1


def _cold_start(
    model: str, document: DocumentOptions, opened: OpenedModel, threads: int | None
) -> dict[str, float]:
    """Seconds of the stages in which a fresh process starts and runs the model once."""
    from dataclasses import asdict

    from nnefc.cli.bench.cold_start import cold_start, cold_start_of_artifact

    if isinstance(opened, ArtifactModel | DynamicArtifactModel):
        shapes = {value.name: value.type.dims for value in opened.inputs}
        return cold_start_of_artifact(model, threads, shapes)
    return cold_start(
        model,
        import_options={
            "shapes": parse_shapes(opened.shapes),
            "symbols": parse_symbols(document.symbol),
            "random_weights": document.random_weights,
            "scalar": document.scalar,
            "dialect": document.dialect,
        },
        compile_options={
            "threads": threads,
            "accuracy": opened.compiling.accuracy,
            "check_indices": not opened.compiling.no_check_indices,
            "precision": opened.compiling.precision,
        },
        limits=asdict(parse_limits(document.limit)),
    )


def _machine() -> dict[str, Any]:
    """The machine and the version that the times are from."""
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
