"""`nnefc compile`: what compiling a model does and costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from nnefc.cli.compile.emit_c import Emit, Name, check_emit, show_emitted, write_folder
from nnefc.cli.compile.explain import Recorder
from nnefc.cli.compile.results import Elsewhere, Here, Made
from nnefc.cli.compile.tune import measure, show_tuning, tuning_facts
from nnefc.cli.support.artifacts import (
    check_output,
    check_results,
    complete_targets,
    show_targets,
    written_facts,
)
from nnefc.cli.support.batch import Batch, batch_shapes
from nnefc.cli.support.models import compile_graph, load
from nnefc.cli.support.options import (
    Accuracy,
    Dialect,
    Json,
    LimitOptions,
    Model,
    RandomWeights,
    Scalar,
    Shapes,
    Strict,
    Threads,
    parse_import,
    usage,
)
from nnefc.cli.support.printing import console, count, print_json, print_table, size, table


def compile_(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.nnefc",
            readable=False,
            help="Write the compiled model into a file, an artifact, whole or not at all: other "
            "commands and nnefc.load take it, without a compiler. With --emit, the folder.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME[,NAME...]",
            help="Processors that the file has code for (default: native, this one with all that "
            "it can do): instruction sets, such as x86-64-v3 or aarch64; repeatable. Weights are "
            "stored as the first one wants them.",
            autocompletion=complete_targets,
        ),
    ] = None,
    emit: Emit = None,
    name: Name = None,
    plan: Annotated[bool, typer.Option("--plan", help="List the launches of the plan.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each pass did, and what it gained.")
    ] = False,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Measure which method is fastest for each convolution on this machine, and keep "
            "the answer for all commands and for nnefc.compile.",
        ),
    ] = False,
    random_weights: RandomWeights = None,
    batch: Batch = None,
    shape: Shapes = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    strict: Strict = False,
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Compile a model and show the plan: launches, kernels, memory, time; -o keeps it.

    Without native among the targets the plan is that of the first one: nothing is compiled for
    this processor, unless --explain or --tune ask about it.

    With --explain also the passes over the graph: how many operations it had before and after, how
    many multiply-adds and bytes between operations there are then, and how long a call would take
    as far as that is estimated.

    With --tune also where measuring chose another method than estimates, and what that gains. Use
    the number of threads and the shapes that the model will run with.

    Set NNEFC_DUMP=FOLDER to have the graph written after every pass.

    Examples:

        nnefc compile net.nnef.tgz

        nnefc compile net.nnef.tgz -o net.nnefc

        nnefc compile net.nnef.tgz -o net.nnefc --target native,x86-64-v3,aarch64

        nnefc compile net.nnef.tgz --emit c -o net

        nnefc compile net.nnef.tgz --explain

        nnefc compile net.nnef.tgz --tune --threads 2

        nnefc compile graph.nnef --random-weights 1 --batch 8 --plan
    """
    from nnefc.kernels.target.isa import NATIVE
    from nnefc.ops.tools.cost import parameter_bytes

    if tune and accuracy == "strict":
        raise usage("--tune has nothing to choose with --accuracy strict: leave one out")
    emission = check_emit(emit, output, name, target)
    targets = check_output(output, target) if emission is None else [emission.target]
    start = time.perf_counter()
    importing = parse_import(
        shapes=batch_shapes(model, batch, shape, limit, dialect),
        random_weights=random_weights,
        scalar=scalar,
        strict=strict,
        limits=limit,
        dialect=dialect,
    )
    graph = load(model, importing)
    read_seconds = time.perf_counter() - start
    if output is not None:
        check_results(graph)
    tuning = measure(graph, threads) if tune else None
    recorder = Recorder()
    start = time.perf_counter()
    made: Made
    if targets and NATIVE not in targets and not (tune or explain):
        made = Elsewhere.of(graph, targets, threads, accuracy)
    else:
        methods = None if tuning is None else tuning.methods
        hook = recorder if explain else None
        made = Here(compile_graph(graph, threads, accuracy, methods=methods, hook=hook), targets)
    compile_seconds = time.perf_counter() - start
    launches = made.launches
    kernels = len({launch.kernel for launch in launches})
    facts: dict[str, Any] = {
        "operations": len(graph),
        "launches": sum(launch.times for launch in launches),
        "kernels": kernels,
        "arena_bytes": made.arena_bytes,
        "arena_lower_bound": made.arena_lower_bound,
        "parameter_bytes": parameter_bytes(graph),
        "constant_bytes": made.constant_bytes,
        "import_seconds": read_seconds,
        "compile_seconds": compile_seconds,
    }
    artifact: dict[str, Any] | None = None
    emitted: dict[str, Any] | None = None
    if emission is not None:
        facts["emitted"] = emitted = write_folder(made, emission)
    elif output is not None:
        start = time.perf_counter()
        made.save(output)
        seconds = time.perf_counter() - start
        artifact = {"path": str(output), "seconds": seconds, **written_facts(output)}
        facts["artifact"] = artifact
    if explain:
        facts["passes"] = recorder.facts()
    if tuning is not None:
        facts["tuning"] = tuning_facts(tuning)
    if json:
        rows = [
            {
                "launch": launch.label,
                "kernel": launch.kernel,
                "tiles": launch.tiles,
                "times": launch.times,
            }
            for launch in launches
        ]
        print_json({**facts, "plan": rows} if plan else facts)
        return
    out = console()
    if tuning is not None:
        show_tuning(out, tuning)
    if explain:
        recorder.show(out)
    if plan:
        view = table("launch", "kernel", "tiles", "times", numeric=["tiles", "times"])
        for launch in launches:
            view.add_row(launch.label, launch.kernel, str(launch.tiles), str(launch.times))
        print_table(out, view)
    out.print(
        f"{count(len(graph), 'operation')}, {count(facts['launches'], 'launch', 'launches')} of "
        f"{count(kernels, 'kernel')}; import {read_seconds:.2f} s, "
        f"compile {compile_seconds:.2f} s"
    )
    out.print(
        f"arena {size(facts['arena_bytes'])}, at least needed "
        f"{size(facts['arena_lower_bound'])}; weights {size(facts['parameter_bytes'])}, "
        f"as kernels want them {size(facts['constant_bytes'])}"
    )
    if emitted is not None:
        show_emitted(out, emitted)
    if artifact is not None:
        out.print(f"{output}: {size(artifact['bytes'])}")
        out.print(f"digest {artifact['digest']}")
        show_targets(out, artifact["targets"])
