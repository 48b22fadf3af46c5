"""Compare nnefc with other engines on quantized networks, and with its own float32.

    python -m benchmarks.quantized --models resnet50,bert --threads 1,2 --json run.json
    NNEFC_ISA=x86-64-v3 python -m benchmarks.quantized --engines nnefc

Codes may round otherwise, so that results are only compared roughly.
"""

from __future__ import annotations

import dataclasses
import json as json_module
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments, artifacts, report
from benchmarks.artifacts import Network
from benchmarks.measure import OURS, Comparison, Measured, compare
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
_ENGINES: Final = "nnefc,onnxruntime,openvino,mnn,litert"
"""nnefc, onnxruntime and OpenVINO read the quantized file itself; the others have their own."""
TOLERANCE: Final = 0.3
"""Largest allowed difference of a result, relative to the largest output: roundings add up."""


class Job(NamedTuple):
    network: str
    method: Method
    threads: int


class Measurement(NamedTuple):
    """The engines on the codes of a network, and nnefc on its reals directly afterwards."""

    codes: Comparison
    reals: Comparison

    @property
    def gain(self) -> float | None:
        """How much longer the reals take in nnefc, by the fastest runs."""
        codes, reals = self.codes.ours, self.reals.ours
        return reals.summary.least / codes.summary.least if codes and reals else None


def main(
    models: Annotated[str, typer.Option(help="Networks; commas between.")] = ",".join(NETWORKS),
    engines: arguments.Engines = _ENGINES,
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
    """Measure engines on quantized networks alternately."""
    from nnefc.runtime.machine.roofline import measure_roofline

    names = arguments.known_of(models, "--models", NETWORKS)
    chosen = arguments.known_of(engines, "--engines", _ENGINES.split(","))
    counts = arguments.counts_of(threads, "--threads")
    for option, path in (("--json", json), ("--table", table)):
        arguments.check_writable(path, option)
    earlier = [Path(name) for name in arguments.items_of(add, "--add")] if add else []
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise arguments.fail(f"{package} is not installed: nnefc[bench]")
    folder = arguments.models_folder(models_dir)
    jobs = [Job(name, each, n) for n in counts for name in names for each in NETWORKS[name]]
    machines = {count: measure_roofline(count, 0.5) for count in counts}
    measured: list[Measurement] = []
    for job, tell in with_progress(jobs, lambda job: f"{job.network} x{job.threads}", errors):
        tell("quantizing")
        reals = artifacts.prepare(job.network, folder, small=small)
        times: dict[str, Any] = {"rounds": rounds, "turn": turn, "progress": tell}
        codes = compare(
            quantized(reals, job.method), chosen, job.threads, tolerance=TOLERANCE, **times
        )
        measured.append(Measurement(codes, compare(_onnx(reals), [OURS], job.threads, **times)))
        errors.print(report.line(codes))
    facts = report.facts([each.codes for each in measured], machines, about(rounds, turn))
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


def _onnx(network: Network) -> Network:
    """The network as an ONNX file in float32, as quantized ones are."""
    return dataclasses.replace(network, archive=artifacts.require(network, artifacts.ONNX))


def _joined(reports: list[report.Facts]) -> report.Facts:
    gains = {(g["threads"], g["network"]): g for each in reports for g in each["gains"]}
    return {**report.joined(reports), "gains": list(gains.values())}


def _gain(each: Measurement) -> dict[str, Any]:
    reals, codes = each.reals.ours, each.codes.ours
    return {
        "network": each.codes.network.title,
        "threads": each.codes.threads,
        "float32_ms": 1e3 * reals.summary.least if reals else None,
        "codes_ms": 1e3 * codes.summary.least if codes else None,
        "gain": each.gain,
        "float32_bytes": _growth(reals),
        "codes_bytes": _growth(codes),
    }


def _growth(measured: Measured | None) -> int | None:
    """Resident bytes after the last run, less those before the network was loaded."""
    return measured.memory_resident - measured.memory_before if measured else None


_TITLE: Final = "nnefc: fastest calls in milliseconds, and MB of a loaded network"
_GAINS: Final = [
    *("network", "threads", "float32", "codes", "float32 ÷ codes"),
    *("float32 MB", "codes MB", "codes ÷ float32"),
]


def _rows(facts: report.Facts) -> list[list[str]]:
    rows: list[list[str]] = []
    for each in facts["gains"]:
        reals, codes = each["float32_bytes"], each["codes_bytes"]
        times = [each["float32_ms"], each["codes_ms"], each["gain"]]
        sizes = [reals / 1e6, codes / 1e6, codes / reals] if reals and codes else [None] * 3
        cells = ("–" if number is None else f"{number:.2f}" for number in (*times, *sizes))
        rows.append([each["network"], str(each["threads"]), *cells])
    return rows


if __name__ == "__main__":
    arguments.run(main)
