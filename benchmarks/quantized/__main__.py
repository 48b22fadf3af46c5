"""Compare nnefc with other engines on reduced networks, and with its own float32.

    python -m benchmarks.quantized --models resnet50,bert --threads 1,2 --json run.json
    python -m benchmarks.quantized --precision bfloat16 --models vit,bert --threads 1,2
    NNEFC_ISA=x86-64-v3 python -m benchmarks.quantized --engines nnefc

A reduced network is quantized, or multiplies bfloat16.  Engines may round otherwise, so that
results are only compared roughly.
"""

from __future__ import annotations

import dataclasses
import json as json_module
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments, artifacts, report
from benchmarks.artifacts import Network
from benchmarks.measure import Comparison, Measured, compare
from benchmarks.peers import about
from benchmarks.progress import with_progress
from benchmarks.quantized.files import Method, quantized

errors = Console(stderr=True)

NETWORKS: Final = {
    **dict.fromkeys(
        (
            *("mobilenet_v2", "resnet18", "resnet50", "vgg16", "efficientnet_b0"),
            *("shufflenet_v2", "inception_v3", "yolo", "unet"),
        ),
        (Method.STATIC,),
    ),
    "vit": (Method.PRODUCTS, Method.STATIC),
    "bert": (Method.PRODUCTS, Method.STATIC, Method.DYNAMIC),
    "lstm": (Method.DYNAMIC,),
}
"""Networks of the zoo, and how they are quantized."""


class Precision(StrEnum):
    """The items that a network multiplies instead of float32."""

    CODES = "codes"
    BFLOAT16 = "bfloat16"


ENGINES: Final = {
    Precision.CODES: "nnefc,onnxruntime,openvino,mnn,litert",
    Precision.BFLOAT16: "nnefc,openvino,torch",
}
"""nnefc, onnxruntime and OpenVINO read the quantized file itself; the others have their own."""
TOLERANCE: Final = {Precision.CODES: 0.3, Precision.BFLOAT16: 0.1}
"""Largest allowed difference of a result, relative to the largest output: roundings add up."""


class Job(NamedTuple):
    """One measurement; `method`: how the network is quantized, None for bfloat16."""

    network: str
    method: Method | None
    threads: int


def main(
    models: Annotated[str, typer.Option(help="Networks; commas between.")] = ",".join(NETWORKS),
    precision: Annotated[
        Precision, typer.Option(help="Quantized networks, or float32 ones in bfloat16.")
    ] = Precision.CODES,
    engines: Annotated[
        str | None, typer.Option(help="Engines (default: all with this precision); commas between.")
    ] = None,
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 15,
    turn: arguments.Turn = 0.15,
    small: Annotated[bool, typer.Option(help="Measure networks of reduced size.")] = False,
    json: arguments.Json = None,
    table: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    add: Annotated[
        str, typer.Option(help="Files of --json whose networks are reported, too; commas between.")
    ] = "",
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure engines on reduced networks alternately."""
    from nnefc.runtime.machine.roofline import measure_roofline

    names = arguments.known_of(models, "--models", NETWORKS)
    known = ENGINES[precision]
    chosen = arguments.known_of(engines or known, "--engines", known.split(","))
    counts = arguments.counts_of(threads, "--threads")
    for option, path in (("--json", json), ("--table", table)):
        arguments.check_writable(path, option)
    earlier = [Path(name) for name in arguments.items_of(add, "--add")] if add else []
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise arguments.fail(f"{package} is not installed: nnefc[bench]")
    folder = arguments.models_folder(models_dir)
    jobs = [
        Job(name, method, count)
        for count in counts
        for name in names
        for method in (NETWORKS[name] if precision is Precision.CODES else (None,))
    ]
    machines = {count: measure_roofline(count, 0.5) for count in counts}
    measured: list[Comparison] = []
    for job, tell in with_progress(jobs, lambda job: f"{job.network} x{job.threads}", errors):
        tell("quantizing")
        reals = artifacts.prepare(job.network, folder, small=small)
        times: dict[str, Any] = {"rounds": rounds, "turn": turn, "progress": tell}
        reduced, ours = _reduced(reals, job.method)
        each = compare(
            *(reduced, chosen, job.threads), tolerance=TOLERANCE[precision], reals=ours, **times
        )
        measured.append(each)
        errors.print(report.line(each))
    facts = report.facts(measured, machines, about(rounds, turn))
    facts["gains"] = [_gain(each) for each in measured]
    if add:
        facts = _joined([*(json_module.loads(path.read_text()) for path in earlier), facts])
    console = Console(width=None if sys.stdout.isatty() else 140)
    report.show(console, facts, work=False)
    shown = Table(*_GAINS, title=_TITLE)
    for row in _rows(facts):
        shown.add_row(*row)
    console.print(shown)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")
    if table:
        gains = [f"### {_TITLE}", "", *report.markdown_table(_GAINS, _rows(facts))]
        table.write_text(report.markdown(facts, work=False) + "\n".join(["", *gains, ""]))
    if report.is_empty(facts):
        raise arguments.fail("nothing could be compared")


def _reduced(network: Network, method: Method | None) -> tuple[Network, Network]:
    """(the reduced network, the one in float32 from a file of the same format)"""
    if method is None:
        halves = Precision.BFLOAT16.value
        title = f"{network.title}, {halves}"
        return dataclasses.replace(network, title=title, precision=halves), network
    file = artifacts.require(network, artifacts.ONNX)
    return quantized(network, method), dataclasses.replace(network, archive=file)


def _joined(reports: list[report.Facts]) -> report.Facts:
    gains = {(g["threads"], g["network"]): g for each in reports for g in each["gains"]}
    return {**report.joined(reports), "gains": list(gains.values())}


def _gain(each: Comparison) -> dict[str, Any]:
    """Fastest calls and memory of nnefc on the network in float32 and on the reduced one."""
    reals = each.reals if each.reals and each.reals.turns else None
    reduced = each.ours
    return {
        "network": each.network.title,
        "threads": each.threads,
        "float32_ms": 1e3 * reals.summary.least if reals else None,
        "reduced_ms": 1e3 * reduced.summary.least if reduced else None,
        "gain": reals.summary.least / reduced.summary.least if reals and reduced else None,
        "gain_of_medians": reals.summary.median / reduced.summary.median
        if reals and reduced
        else None,
        "float32_bytes": _growth(reals),
        "reduced_bytes": _growth(reduced),
    }


def _growth(measured: Measured | None) -> int | None:
    """Resident bytes after the last run, less those before the network was loaded."""
    return measured.memory_resident - measured.memory_before if measured else None


_TITLE: Final = "nnefc: fastest calls in milliseconds, and MB of a loaded network"
_GAINS: Final = [
    *("network", "threads", "float32", "reduced", "float32 ÷ reduced", "of medians"),
    *("float32 MB", "reduced MB", "reduced ÷ float32"),
]


def _rows(facts: report.Facts) -> list[list[str]]:
    rows: list[list[str]] = []
    for each in facts["gains"]:
        reals, reduced = each["float32_bytes"], each["reduced_bytes"]
        times = [each[key] for key in ("float32_ms", "reduced_ms", "gain", "gain_of_medians")]
        sizes = [reals / 1e6, reduced / 1e6, reduced / reals] if reals and reduced else [None] * 3
        cells = ("–" if number is None else f"{number:.2f}" for number in (*times, *sizes))
        rows.append([each["network"], str(each["threads"]), *cells])
    return rows


if __name__ == "__main__":
    arguments.run(main)
