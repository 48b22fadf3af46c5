"""Tables and histograms of `nnefc bench`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nnefc.cli.bench.machine_load import BUSY
from nnefc.cli.support.measurements import duration, histogram
from nnefc.cli.support.printing import console, count, print_table, size, table

_STAGES = {"python": "start Python", "read": "read the model", "first_run": "first run"}
"""Descriptions of the stages of a cold start; the others are described by their names."""
_HISTOGRAM_SHARE = 0.95
"""Share of the runs in a histogram: the slowest ones are left out, they would stretch its axis."""


def print_facts(facts: dict[str, Any]) -> None:
    """Print a table, a histogram for each row, memory and the cold start."""
    out = console()
    several = any(result["streams"] > 1 for result in facts["results"])
    columns = ["threads", *(["streams"] if several else []), "median", "mean", "p95", "max"]
    columns += ["inputs/s", "GFLOP/s"]
    view = table(*columns, numeric=columns)
    for result in facts["results"]:
        view.add_row(
            str(result["threads"]),
            *([str(result["streams"])] if several else []),
            *(duration(result[f"{key}_ms"] / 1e3) for key in ("median", "mean", "p95", "max")),
            f"{result['per_second']:,.{0 if result['per_second'] >= 1000 else 1}f}",
            f"{result['gflops']:.3g}",
        )
    print_table(out, view)
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    for result in facts["results"]:
        ordered = sorted(result["samples_ms"])
        fastest = ordered[: int(len(ordered) * _HISTOGRAM_SHARE) + 1]
        bars = histogram(fastest, 32, encoding)
        low, high = duration(fastest[0] / 1e3), duration(fastest[-1] / 1e3)
        name = f"{count(result['threads'], 'thread')}, {count(result['runs'], 'run')}"
        out.print(f"{name}: {low} |{bars}| {high} (p{100 * _HISTOGRAM_SHARE:.0f})")
    for note in busy_notes(facts["results"], facts["machine"]["cpus"]):
        out.print(f"note: {note}")
    out.print(_inputs(facts["inputs"]))
    out.print(f"arena {size(facts['arena_bytes'])}, batch {facts['batch']}")
    if "cold_start_ms" in facts:
        stages = {stage: duration(ms / 1e3) for stage, ms in facts["cold_start_ms"].items()}
        total = stages.pop("total")
        if "compile" in stages:
            stages["compile"] += f" ({_kernels()})"
        listed = ", ".join(f"{_STAGES.get(stage, stage)} {text}" for stage, text in stages.items())
        out.print(f"cold start {total}: {listed}")


def busy_notes(results: Sequence[Mapping[str, Any]], cpus: int) -> list[str]:
    """A sentence if other processes were busy during measurements."""
    loads = [result["other_load"] or 0.0 for result in results]
    if max(loads) < BUSY:
        return []
    return [
        f"other processes used {max(loads):.1f} of {count(cpus, 'CPU')}: times vary, and the "
        "fastest runs tell most"
    ]


def _inputs(inputs: Mapping[str, str]) -> str:
    """A line that tells which inputs have random values."""
    random = [name for name, source in inputs.items() if source == "random"]
    read = [name for name in inputs if name not in random]
    listed = [f"{', '.join(read)} from files"] if read else []
    listed += [f"{', '.join(random)} random"] if random else []
    return f"inputs: {'; '.join(listed) or 'none'}"


def _kernels() -> str:
    """Whether a fresh process gets the kernels that this process has compiled from the cache."""
    from nnefc.runtime.cache.kernel_cache import is_writable, kernels_path

    if kernels_path() is None:
        return "no kernel cache"
    return "with kernels from the cache" if is_writable() else "the kernel cache cannot be used"
