"""`nnefc compile`: compile a model, show its plan and costs, and save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.compile.emit_c import Emit, Name, check_emit, show_emitted, write_folder
from nnefc.cli.compile.explain import PassRecorder
from nnefc.cli.compile.results import CompileResult, CrossCompiled, NativeModel
from nnefc.cli.compile.tune import run_tuning, show_tuning, tuning_facts
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

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.ir import Graph


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

    --explain also shows the passes over the graph: the operations before and after each pass, the
    multiply-adds and the bytes between operations after it, and the estimated time of a call.

    --tune also shows where the measured method differs from the estimated one, and the gain. Use
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
    tuning = run_tuning(graph, threads) if tune else None
    recorder = PassRecorder() if explain else None
    start = time.perf_counter()
    result: CompileResult
    if targets and NATIVE not in targets and not (tune or explain):
        result = CrossCompiled.of(graph, targets, threads, accuracy)
    else:
        methods = None if tuning is None else tuning.methods
        compiled = compile_graph(graph, threads, accuracy, methods=methods, hook=recorder)
        result = NativeModel(compiled, targets)
    facts = {
        **_facts(graph, result),
        "import_seconds": read_seconds,
        "compile_seconds": time.perf_counter() - start,
    }
    if emission is not None:
        facts["emitted"] = write_folder(result, emission)
    elif output is not None:
        facts["artifact"] = _save(result, output)
    if recorder is not None:
        facts["passes"] = recorder.facts()
    if tuning is not None:
        facts["tuning"] = tuning_facts(tuning)
    if json:
        print_json({**facts, "plan": _plan_rows(result)} if plan else facts)
        return
    out = console()
    if tuning is not None:
        show_tuning(out, tuning)
    if recorder is not None:
        recorder.show(out)
    if plan:
        view = table("launch", "kernel", "tiles", "times", numeric=["tiles", "times"])
        for row in _plan_rows(result):
            view.add_row(*map(str, row.values()))
        print_table(out, view)
    _show(out, facts)


def _facts(graph: Graph, result: CompileResult) -> dict[str, Any]:
    """Sizes of a graph and of its code, for JSON."""
    from nnefc.ops.tools.cost import parameter_bytes

    return {
        "operations": len(graph),
        "launches": sum(launch.times for launch in result.launches),
        "kernels": len({launch.kernel for launch in result.launches}),
        "arena_bytes": result.arena_bytes,
        "arena_lower_bound": result.arena_lower_bound,
        "parameter_bytes": parameter_bytes(graph),
        "constant_bytes": result.constant_bytes,
    }


def _save(result: CompileResult, output: Path) -> dict[str, Any]:
    """Write the artifact; its facts, for JSON."""
    start = time.perf_counter()
    result.save(output)
    seconds = time.perf_counter() - start
    return {"path": str(output), "seconds": seconds, **written_facts(output)}


def _plan_rows(result: CompileResult) -> list[dict[str, Any]]:
    """A record for each launch of the plan."""
    return [
        {
            "launch": launch.label,
            "kernel": launch.kernel,
            "tiles": launch.tiles,
            "times": launch.times,
        }
        for launch in result.launches
    ]


def _show(out: Console, facts: dict[str, Any]) -> None:
    """Print counts, sizes and times, and the files that were written."""
    out.print(
        f"{count(facts['operations'], 'operation')}, "
        f"{count(facts['launches'], 'launch', 'launches')} of "
        f"{count(facts['kernels'], 'kernel')}; import {facts['import_seconds']:.2f} s, "
        f"compile {facts['compile_seconds']:.2f} s"
    )
    out.print(
        f"arena {size(facts['arena_bytes'])}, at least needed "
        f"{size(facts['arena_lower_bound'])}; weights {size(facts['parameter_bytes'])}, "
        f"as kernels want them {size(facts['constant_bytes'])}"
    )
    if "emitted" in facts:
        show_emitted(out, facts["emitted"])
    if "artifact" in facts:
        artifact = facts["artifact"]
        out.print(f"{artifact['path']}: {size(artifact['bytes'])}")
        out.print(f"digest {artifact['digest']}")
        show_targets(out, artifact["targets"])
