"""The report of `nnefc profile`: a table of rows, and the call against the machine's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnefc.cli.profile.rows import GroupBy, Row, family
from nnefc.cli.support.measurements import duration, percentile
from nnefc.cli.support.printing import console, count, print_table, quantity, table

if TYPE_CHECKING:
    from nnefc.cli.profile.measure import ModelProfile


def call_facts(measured: ModelProfile) -> dict[str, Any]:
    """Facts of a whole call, for JSON."""
    total = sorted(measured.profile.total.tolist())
    rows, threads = measured.rows, measured.threads
    seconds = sum(row.seconds for row in rows)
    roofline = measured.rooflines[threads]
    return {
        "threads": threads,
        "runs": measured.profile.runs,
        "total_ms": 1e3 * percentile(total, 50),
        "p10_ms": 1e3 * percentile(total, 10),
        "p90_ms": 1e3 * percentile(total, 90),
        "launches_ms": 1e3 * seconds,
        "limit_ms": 1e3 * sum(row.limit for row in rows),
        "busy": sum(row.busy for row in rows) / (seconds * threads or 1),
        "gflop": sum(row.flops for row in rows) / 1e9,
        "arena_bytes": measured.arena_bytes,
        "machine": {
            "fma_gflops": roofline.fma_gflops,
            "read_gbps": roofline.read_gbps,
            "copy_gbps": roofline.copy_gbps,
        },
    }


def row_facts(row: Row) -> dict[str, Any]:
    """Facts of a row, for JSON."""
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


def print_report(
    measured: ModelProfile, rows: Sequence[Row], omitted: int, by: GroupBy, facts: dict[str, Any]
) -> None:
    """Print the table and the summary; `omitted`: the number of rows that are not in it."""
    out = console()
    threads = measured.threads
    numeric = ["time", "share", "GFLOP/s", "GB/s", "of limit", "tiles", "launches", "busy"]
    columns = [by.value, "time", "share", "GFLOP/s", "GB/s", "of limit", "bound by"]
    columns += ["busy"] if threads > 1 else []
    columns += ["tiles" if by is GroupBy.LAUNCH else "launches"]
    columns += [] if by is GroupBy.KERNEL else ["kernel"]
    view = table(*columns, numeric=numeric, fold=[by.value, "kernel"])
    for row in rows:
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
    print_table(out, view, optional=["tiles", "busy", "kernel", "bound by", "GB/s"])
    if omitted:
        out.print(f"{omitted} more rows")
    for line in _summary_lines(measured, rows, facts):
        out.print(line)


def _summary_lines(measured: ModelProfile, rows: Sequence[Row], facts: dict[str, Any]) -> list[str]:
    """The time of a call, its share of the peak, and the limits of the machine."""
    total, launches = facts["total_ms"] / 1e3, facts["launches_ms"] / 1e3
    busy = f", threads busy {100 * facts['busy']:.0f} %" if measured.threads > 1 else ""
    speed = facts["gflop"] / launches if launches else 0.0
    peak = measured.peak_gflops
    lines = [
        f"a call: {duration(total)} (p10 {duration(facts['p10_ms'] / 1e3)}, p90 "
        f"{duration(facts['p90_ms'] / 1e3)}, {count(facts['runs'], 'run')}), launches "
        f"{duration(launches)}, at the limit {duration(facts['limit_ms'] / 1e3)}{busy}",
        f"{quantity(1e9 * facts['gflop'], 'FLOP')}, {speed:.4g} GFLOP/s: "
        f"{100 * speed / peak:.0f} % of the peak",
    ]
    for n, roofline in sorted(measured.rooflines.items()):
        lines.append(
            f"{count(n, 'thread')}: peak {roofline.peak_gflops(measured.itemsize):.4g} GFLOP/s, "
            f"memory {roofline.read_gbps:.3g} GB/s read, {roofline.copy_gbps:.3g} GB/s read and "
            "written"
        )
    if any(row.flops > 1e9 * peak * row.seconds for row in rows):
        lines.append(
            "above the peak: products of codes are counted, and those that Winograd or padding "
            "saves"
        )
    return lines
