"""`nnefc compile`: what compiling a model does and costs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from nnefc.cli.common import (
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


def compile_(
    model: Model,
    plan: Annotated[bool, typer.Option("--plan", help="List the launches of the plan.")] = False,
    random_weights: RandomWeights = None,
    shape: Shapes = None,
    scalar: Scalar = "float32",
    threads: Threads = None,
    strict: Strict = False,
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Compile a model and show the plan: launches, kernels, memory, time.

    Set NNEFC_DUMP=FOLDER to have the graph written after every pass.

    Examples:

        nnefc compile net.nnef.tgz

        nnefc compile graph.nnef --random-weights 1 --shape input=8,3,224,224 --plan
    """
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
    compiled = compile_graph(graph, threads)
    finished = time.perf_counter()
    launches = compiled.launches
    kernels = len({launch.kernel for launch in launches})
    facts = {
        "operations": len(graph),
        "launches": len(launches),
        "kernels": kernels,
        "arena_bytes": compiled.arena_bytes,
        "import_seconds": imported - start,
        "compile_seconds": finished - imported,
    }
    if json:
        rows = [
            {"launch": launch.label, "kernel": launch.kernel, "tiles": launch.tiles}
            for launch in launches
        ]
        print_json({**facts, "plan": rows} if plan else facts)
        return
    out = console()
    if plan:
        view = table("launch", "kernel", "tiles", numeric=["tiles"])
        for launch in launches:
            view.add_row(launch.label, launch.kernel, str(launch.tiles))
        print_table(out, view)
    out.print(
        f"{count(len(graph), 'operation')}, {count(len(launches), 'launch', 'launches')} of "
        f"{count(kernels, 'kernel')}, arena {size(facts['arena_bytes'])}; "
        f"import {imported - start:.2f} s, compile {finished - imported:.2f} s"
    )
