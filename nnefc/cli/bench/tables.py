"""Tables and histograms of `nnefc bench`."""

from __future__ import annotations

import sys
from typing import Any

from nnefc.cli.support.measurements import duration, histogram
from nnefc.cli.support.printing import console, count, print_table, reported_warnings, size, table

_STAGES = {"python": "start Python", "read": "read the model", "first_run": "first run"}
"""Descriptions of the stages of a cold start; others are shown by name."""
_USUAL = 0.95
"""Share of the runs in a histogram; the slowest runs would stretch its axis."""


def print_facts(facts: dict[str, Any]) -> None:
    """A table, a histogram for each row, memory and the cold start."""
    out = console()
    several = any(result["streams"] > 1 for result in facts["results"])
    columns = ["threads", *(["streams"] if several else []), "median", "p10", "p90", "p99", "min"]
    columns += ["inputs/s", "GFLOP/s", "runs"]
    view = table(*columns, numeric=columns)
    for result in facts["results"]:
        view.add_row(
            str(result["threads"]),
            *([str(result["streams"])] if several else []),
            *(
                duration(result[f"{key}_ms"] / 1e3)
                for key in ("median", "p10", "p90", "p99", "min")
            ),
            f"{result['per_second']:,.1f}",
            f"{result['gflops']:.3g}",
            f"{result['runs']:,}",
        )
    print_table(out, view)
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    for result in facts["results"]:
        ordered = sorted(result["samples_ms"])
        usual = ordered[: int(len(ordered) * _USUAL) + 1]
        bars = histogram(usual, 40, encoding)
        low, high = duration(usual[0] / 1e3), duration(usual[-1] / 1e3)
        name = count(result["threads"], "thread")
        out.print(f"{name}: {low} |{bars}| {high} ({100 * _USUAL:.0f} % of the runs)")
    out.print(f"arena {size(facts['arena_bytes'])}, batch {facts['batch']}")
    if "cold_start_ms" in facts:
        stages = {stage: duration(ms / 1e3) for stage, ms in facts["cold_start_ms"].items()}
        total = stages.pop("total")
        if "compile" in stages:
            stages["compile"] += f" ({_kernels()})"
        listed = ", ".join(f"{_STAGES.get(stage, stage)} {text}" for stage, text in stages.items())
        out.print(f"cold start {total}: {listed}")


def _kernels() -> str:
    """Where a fresh process gets the kernels that this process has compiled."""
    from nnefc.runtime.cache.kernel_cache import is_writable, kernels_path

    if kernels_path() is None:
        return "there is no cache of kernels"
    with reported_warnings():
        found = is_writable()
    return "with kernels from the cache" if found else "the cache of kernels cannot be used"
