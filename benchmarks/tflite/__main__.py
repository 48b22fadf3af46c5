"""Compare nnefc with LiteRT on TensorFlow Lite networks.

    python -m benchmarks.tflite --models mobilenet_v2,ssd --threads 1,2 --json run.json

The files are written by TensorFlow's converter (`pip install tensorflow-cpu`), with random weights.
LiteRT's delegate XNNPACK rounds codes in floats, nnefc as LiteRT's reference kernels, so that
results are only compared roughly.
"""

from __future__ import annotations

import json as json_module
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from benchmarks import arguments, report
from benchmarks.engines.nnefc_cpu import NnefcOfNnef
from benchmarks.measure import TOLERANCE, Comparison, compare
from benchmarks.peers import about
from benchmarks.progress import with_progress
from benchmarks.tflite.files import Kind, prepared
from benchmarks.tflite.networks import NETWORKS

errors = Console(stderr=True)

_ENGINES: Final = "nnefc,litert"
_OF_CODES: Final = 0.6
"""Largest difference of a result of codes, relative to the largest one: roundings add up."""


def main(
    models: Annotated[str, typer.Option(help="Networks; commas between.")] = ",".join(NETWORKS),
    kinds: Annotated[str, typer.Option(help="float32, int8; commas between.")] = ",".join(Kind),
    engines: arguments.Engines = _ENGINES,
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 15,
    turn: arguments.Turn = 0.15,
    small: Annotated[bool, typer.Option(help="Measure networks of reduced size.")] = False,
    json: arguments.Json = None,
    table: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    models_dir: arguments.ModelsDir = None,
    nnef: Annotated[
        bool, typer.Option(help="Also measure nnefc with the networks converted to NNEF.")
    ] = False,
) -> None:
    """Measure engines on TensorFlow Lite networks alternately."""
    from nnefc.runtime.machine.roofline import measure_roofline

    names = arguments.known_of(models, "--models", NETWORKS)
    chosen = [Kind(kind) for kind in arguments.known_of(kinds, "--kinds", list(Kind))]
    measured_engines = arguments.known_of(engines, "--engines", _ENGINES.split(","))
    measured_engines = [*measured_engines, *([NnefcOfNnef.name] if nnef else [])]
    counts = arguments.counts_of(threads, "--threads")
    for option, path in (("--json", json), ("--table", table)):
        arguments.check_writable(path, option)
    if find_spec("tensorflow") is None:
        raise arguments.fail("TensorFlow is not installed: pip install tensorflow-cpu")
    folder = arguments.models_folder(models_dir)
    jobs = [(name, kind, count) for count in counts for name in names for kind in chosen]
    machines = {count: measure_roofline(count, 0.5) for count in counts}
    measured: list[Comparison] = []
    for job, tell in with_progress(jobs, lambda job: f"{job[0]} {job[1]} x{job[2]}", errors):
        name, kind, count = job
        tell("converting")
        network = prepared(name, kind, folder, small=small)
        times: dict[str, Any] = {"rounds": rounds, "turn": turn, "progress": tell}
        tolerance = _OF_CODES if kind is Kind.CODES else TOLERANCE
        measured.append(compare(network, measured_engines, count, tolerance=tolerance, **times))
        errors.print(report.line(measured[-1]))
    facts = report.facts(measured, machines, about(rounds, turn))
    report.show(Console(width=None if sys.stdout.isatty() else 140), facts, work=False)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")
    if table:
        table.write_text(report.markdown(facts, work=False))
    if report.is_empty(facts):
        raise arguments.fail("nothing could be compared")


if __name__ == "__main__":
    arguments.run(main)
