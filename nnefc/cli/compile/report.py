"""The report of `nnefc compile`: counts, sizes, times, and the files that were written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.compile.emit_c import print_emitted
from nnefc.cli.compile.explain import PassRecorder
from nnefc.cli.compile.generated_code import CompileResult
from nnefc.cli.compile.run_tuning import print_tuning
from nnefc.cli.support.artifacts import print_targets, written_facts
from nnefc.cli.support.printing import console, count, print_table, size, table

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.driver.tuning import Tuning
    from nnefc.ir import Graph
    from nnefc.runtime.plan.launch_info import LaunchInfo


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Facts of a compilation for JSON, and the records behind the tables."""

    facts: dict[str, Any]
    launches: Sequence[LaunchInfo]
    passes: PassRecorder | None
    tuning: Tuning | None

    @property
    def plan(self) -> list[dict[str, Any]]:
        """A record for each launch of the plan."""
        return [
            {
                "launch": launch.label,
                "kernel": launch.kernel,
                "tiles": launch.tiles,
                "times": launch.times,
            }
            for launch in self.launches
        ]


def graph_facts(graph: Graph, result: CompileResult) -> dict[str, Any]:
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


def save_artifact(result: CompileResult, output: Path) -> dict[str, Any]:
    """Write an artifact and return its facts, for JSON."""
    start = time.perf_counter()
    result.save(output)
    seconds = time.perf_counter() - start
    return {"path": str(output), "seconds": seconds, **written_facts(output)}


def print_report(report: CompileReport, *, plan: bool) -> None:
    """Print the tables of a compilation; `plan`: with the launches."""
    out = console()
    if report.tuning is not None:
        print_tuning(out, report.tuning)
    if report.passes is not None:
        report.passes.print(out)
    if plan:
        view = table("launch", "kernel", "tiles", "times", numeric=["tiles", "times"])
        for row in report.plan:
            view.add_row(*map(str, row.values()))
        print_table(out, view)
    _print_facts(out, report.facts)


def _print_facts(out: Console, facts: dict[str, Any]) -> None:
    """Print counts, sizes and times, and the files that were written."""
    out.print(
        f"{count(facts['operations'], 'operation')}, "
        f"{count(facts['launches'], 'launch', 'launches')} of "
        f"{count(facts['kernels'], 'kernel')}; import {facts['import_seconds']:.2f} s, "
        f"compile {facts['compile_seconds']:.2f} s"
    )
    out.print(
        f"arena {size(facts['arena_bytes'])} (lower bound {size(facts['arena_lower_bound'])}); "
        f"weights {size(facts['parameter_bytes'])}, packed {size(facts['constant_bytes'])}"
    )
    if "emitted" in facts:
        print_emitted(out, facts["emitted"])
    if "artifact" in facts:
        artifact = facts["artifact"]
        out.print(f"{artifact['path']}: {size(artifact['bytes'])}")
        out.print(f"digest {artifact['digest']}")
        print_targets(out, artifact["targets"])
