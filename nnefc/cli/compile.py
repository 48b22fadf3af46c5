"""`nnefc compile`: what compiling a model does and costs."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from nnefc.cli.common import (
    Accuracy,
    Json,
    LimitOptions,
    Model,
    RandomWeights,
    Scalar,
    Shapes,
    Strict,
    Threads,
    compile_graph,
    console,
    count,
    load,
    print_json,
    print_table,
    size,
    table,
)
from nnefc.cli.explain import Recorder


def compile_(
    model: Model,
    plan: Annotated[bool, typer.Option("--plan", help="List the launches of the plan.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each pass did, and what it gained.")
    ] = False,
    random_weights: RandomWeights = None,
    shape: Shapes = None,
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    strict: Strict = False,
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Compile a model and show the plan: launches, kernels, memory, time.

    With --explain also the passes over the graph: how many operations it had before and after, and
    how many multiply-adds and bytes between operations there are then.

    Set NNEFC_DUMP=FOLDER to have the graph written after every pass.

    Examples:

        nnefc compile net.nnef.tgz

        nnefc compile net.nnef.tgz --explain

        nnefc compile graph.nnef --random-weights 1 --shape input=8,3,224,224 --plan
    """
    from nnefc.ops.cost import parameter_bytes

    start = time.perf_counter()
    graph = load(
        model,
        shapes=shape,
        random_weights=random_weights,
        scalar=scalar,
        strict=strict,
        limits=limit,
    )
    imported = time.perf_counter()
    recorder = Recorder()
    compiled = compile_graph(graph, threads, accuracy, hook=recorder if explain else None)
    finished = time.perf_counter()
    launches = compiled.launches
    kernels = len({launch.kernel for launch in launches})
    facts: dict[str, Any] = {
        "operations": len(graph),
        "launches": len(launches),
        "kernels": kernels,
        "arena_bytes": compiled.arena_bytes,
        "arena_lower_bound": compiled.plan.arena.lower_bound,
        "parameter_bytes": parameter_bytes(graph),
        "constant_bytes": compiled.constant_bytes,
        "import_seconds": imported - start,
        "compile_seconds": finished - imported,
    }
    if explain:
        facts["passes"] = recorder.facts()
    if json:
        rows = [
            {"launch": launch.label, "kernel": launch.kernel, "tiles": launch.tiles}
            for launch in launches
        ]
        print_json({**facts, "plan": rows} if plan else facts)
        return
    out = console()
    if explain:
        recorder.show(out)
    if plan:
        view = table("launch", "kernel", "tiles", numeric=["tiles"])
        for launch in launches:
            view.add_row(launch.label, launch.kernel, str(launch.tiles))
        print_table(out, view)
    out.print(
        f"{count(len(graph), 'operation')}, {count(len(launches), 'launch', 'launches')} of "
        f"{count(kernels, 'kernel')}; import {imported - start:.2f} s, "
        f"compile {finished - imported:.2f} s"
    )
    out.print(
        f"arena {size(facts['arena_bytes'])}, at least needed "
        f"{size(facts['arena_lower_bound'])}; weights {size(facts['parameter_bytes'])}, "
        f"as kernels want them {size(facts['constant_bytes'])}"
    )
