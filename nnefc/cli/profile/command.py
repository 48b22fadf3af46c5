"""`nnefc profile`: where the time of an inference goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.profile.rows import GroupBy, Row, SortBy, arrange, family, rows
from nnefc.cli.support.artifacts import ModelOrArtifact, open_model
from nnefc.cli.support.batch import Batch
from nnefc.cli.support.measurements import duration, percentile, require_seconds
from nnefc.cli.support.options import (
    Accuracy,
    Dialect,
    Json,
    LimitOptions,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    usage,
)
from nnefc.cli.support.printing import console, count, print_json, print_table, quantity, table

if TYPE_CHECKING:
    from nnefc.runtime.machine.roofline import Roofline
    from nnefc.runtime.run.model import CompiledModel
    from nnefc.runtime.run.profile import Profile


def profile(
    context: typer.Context,
    model: ModelOrArtifact,
    sort: Annotated[
        SortBy, typer.Option(help="By time, in order of execution, or by time above the limit.")
    ] = SortBy.TIME,
    by: Annotated[
        GroupBy, typer.Option(help="A row for each launch, kind of operation or kernel.")
    ] = GroupBy.LAUNCH,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show only the first N rows.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE.json",
            help="Write when each tile ran, and where: a trace for ui.perfetto.dev or "
            "chrome://tracing.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE.svg", help="Draw where the time goes."),
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Times are not medians but the best of all runs: for machines with other work.",
        ),
    ] = False,
    seconds: Annotated[float, typer.Option("--duration", help="Seconds to measure.")] = 1.0,
    random_weights: RandomWeights = None,
    batch: Batch = None,
    shape: Shapes = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Show the time of each launch of a compiled model, and how close it is to the machine's limit.

    The limit is the least time that the multiply-adds and the bytes of a launch can take, at the
    peak speed of this machine as measured in the same run. Times are medians over runs on random
    inputs; reading the clock adds some 50 ns to each.

    Examples:

        nnefc profile net.nnef.tgz

        nnefc profile net.nnef.tgz --by kernel --threads 1

        nnefc profile net.nnef.tgz --sort order --trace trace.json --picture profile.svg
    """
    from nnefc.formats.atomic import replace_file
    from nnefc.ir import DType
    from nnefc.runtime.machine.roofline import measure_roofline
    from nnefc.runtime.memory.tensors import random_array

    require_seconds("--duration", seconds)
    for path, option, suffix in ((trace, "--trace", ".json"), (picture, "--picture", ".svg")):
        if path is not None and path.suffix != suffix:
            raise usage(f"{option} {path}: the name should end in {suffix}")
    given = open_model(context)
    compiled = given.compiled(threads)
    inputs = [random_array(value.type, 0, value.name) for value in given.inputs]
    machines = {n: measure_roofline(n, seconds=0.2 * n) for n in {1, compiled.threads}}
    found = compiled.profile(*inputs, seconds=seconds)
    doubles = any(v.type.dtype is DType.FLOAT64 for op in given.graph.ops for v in op.outputs)
    itemsize = 8 if doubles else 4
    launches = rows(compiled.launches, found, machines, itemsize, best=best)
    if trace is not None:
        from nnefc.cli.profile.trace_events import write_trace

        with replace_file(trace) as file:
            file.write(write_trace(given.name, compiled.launches, found))
    if picture is not None:
        from nnefc.cli.profile.icicle import draw

        with replace_file(picture) as file:
            title = f"{given.name}, {count(compiled.threads, 'thread')}"
            file.write(draw(title, launches).encode())
    shown = arrange(launches, by, sort)
    facts = summary(compiled, found, launches, machines[compiled.threads])
    if json:
        print_json({"model": model, **facts, "rows": [_facts(row) for row in shown[:top]]})
        return
    _print(shown[:top], len(shown), by, facts, machines, itemsize)


def summary(
    compiled: CompiledModel, found: Profile, launches: Sequence[Row], machine: Roofline
) -> dict[str, Any]:
    """Facts of the whole call, for JSON."""
    total = sorted(found.total.tolist())
    seconds = sum(row.seconds for row in launches)
    return {
        "threads": compiled.threads,
        "runs": found.runs,
        "total_ms": 1e3 * percentile(total, 50),
        "p10_ms": 1e3 * percentile(total, 10),
        "p90_ms": 1e3 * percentile(total, 90),
        "launches_ms": 1e3 * seconds,
        "limit_ms": 1e3 * sum(row.limit for row in launches),
        "busy": sum(row.busy for row in launches) / (seconds * compiled.threads or 1),
        "gflop": sum(row.flops for row in launches) / 1e9,
        "arena_bytes": compiled.arena_bytes,
        "machine": {
            "fma_gflops": machine.fma_gflops,
            "read_gbps": machine.read_gbps,
            "copy_gbps": machine.copy_gbps,
        },
    }


def _facts(row: Row) -> dict[str, Any]:
    seconds = row.seconds or float("nan")
    return {
        "name": row.name,
        "kernel": row.kernel,
        "launches": row.launches,
        "tiles": row.tiles,
        "us": 1e6 * row.seconds,
        "busy_us": 1e6 * row.busy,
        "flops": row.flops,
        "bytes": row.nbytes,
        "gflops": row.flops / seconds / 1e9,
        "gbps": row.nbytes / seconds / 1e9,
        "limit_us": 1e6 * row.limit,
        "of_limit": row.of_limit,
        "bound": row.bound,
    }


def _print(
    shown: Sequence[Row],
    every: int,
    by: GroupBy,
    facts: dict[str, Any],
    machines: dict[int, Roofline],
    itemsize: int,
) -> None:
    out = console()
    threads = facts["threads"]
    numeric = ["time", "share", "GFLOP/s", "GB/s", "of limit", "tiles", "launches", "busy"]
    columns = [by.value, "time", "share", "GFLOP/s", "GB/s", "of limit", "bound by"]
    columns += ["busy"] if threads > 1 else []
    columns += ["tiles" if by is GroupBy.LAUNCH else "launches"]
    columns += [] if by is GroupBy.KERNEL else ["kernel"]
    view = table(*columns, numeric=numeric, fold=[by.value, "kernel"])
    for row in shown:
        cells = [
            row.name,
            duration(row.seconds),
            f"{1e5 * row.seconds / facts['launches_ms']:.1f} %",
            f"{row.flops / row.seconds / 1e9:.3g}" if row.flops and row.seconds else "",
            f"{row.nbytes / row.seconds / 1e9:.3g}" if row.nbytes and row.seconds else "",
            f"{100 * row.of_limit:.0f} %" if row.bound not in ("", "caches") else "",
            row.bound,
        ]
        if threads > 1:
            cells.append(f"{100 * row.busy / (row.seconds * threads or 1):.0f} %")
        cells.append(str(row.tiles if by is GroupBy.LAUNCH else row.launches))
        if by is not GroupBy.KERNEL:
            cells.append(family(row) if by is GroupBy.LAUNCH else row.kernel)
        view.add_row(*cells)
    print_table(out, view)
    if len(shown) < every:
        out.print(f"{every - len(shown)} more rows")
    for line in _footer(shown, facts, machines, itemsize):
        out.print(line)


def _footer(
    shown: Sequence[Row], facts: dict[str, Any], machines: dict[int, Roofline], itemsize: int
) -> list[str]:
    total, launches = facts["total_ms"] / 1e3, facts["launches_ms"] / 1e3
    busy = f", threads busy {100 * facts['busy']:.0f} %" if facts["threads"] > 1 else ""
    rate = facts["gflop"] / launches if launches else 0.0
    peak = machines[facts["threads"]].peak_gflops(itemsize)
    lines = [
        f"a call: {duration(total)} (p10 {duration(facts['p10_ms'] / 1e3)}, p90 "
        f"{duration(facts['p90_ms'] / 1e3)}, {count(facts['runs'], 'run')}), launches "
        f"{duration(launches)}, at the limit {duration(facts['limit_ms'] / 1e3)}{busy}",
        f"{quantity(1e9 * facts['gflop'], 'FLOP')}, {rate:.4g} GFLOP/s: "
        f"{100 * rate / peak:.0f} % of the peak",
    ]
    for n, machine in sorted(machines.items()):
        lines.append(
            f"{count(n, 'thread')}: peak {machine.peak_gflops(itemsize):.4g} GFLOP/s, memory "
            f"{machine.read_gbps:.3g} GB/s read, {machine.copy_gbps:.3g} GB/s read and written"
        )
    if any(row.flops > 1e9 * peak * row.seconds for row in shown):
        lines.append(
            "above the peak: products that Winograd's method or padding saves count as done"
        )
    return lines
