"""Compare nnefc with other engines on whole networks.

python -m benchmarks.peers --models resnet50,vit --engines nnefc,onnxruntime --threads 1,2
"""

from __future__ import annotations

import json as json_module
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from benchmarks import arguments, artifacts, picture, report
from benchmarks.engines import DEFAULT_ENGINES
from benchmarks.measure import Comparison, compare
from benchmarks.progress import with_progress
from benchmarks.zoo import ZOO

errors = Console(stderr=True)

_ENGINES = ",".join(DEFAULT_ENGINES)


def main(
    models: Annotated[
        str, typer.Option(help="Networks of the zoo or paths of NNEF containers; commas between.")
    ] = ",".join(ZOO),
    engines: arguments.Engines = _ENGINES,
    threads: arguments.ThreadCounts = "1",
    batch: Annotated[str, typer.Option(help="Batch sizes; commas between.")] = "1",
    rounds: arguments.Rounds = 15,
    turn: arguments.Turn = 0.15,
    small: Annotated[bool, typer.Option(help="Measure the zoo at reduced size.")] = False,
    json: arguments.Json = None,
    table: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    picture_file: Annotated[
        Path | None, typer.Option("--picture", help="Write a picture (.svg or .png).")
    ] = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Check that engines agree on networks, and measure them alternately."""
    from nnefc.runtime.machine.roofline import measure_roofline as measure_machine

    names, chosen = arguments.items_of(models, "--models"), arguments.engines_of(engines)
    counts = arguments.counts_of(threads, "--threads")
    batches = arguments.counts_of(batch, "--batch")
    for option, path in (("--json", json), ("--table", table), ("--picture", picture_file)):
        arguments.check_writable(path, option)
    if picture_file:
        try:
            picture.check_format(picture_file)
        except picture.NoPicture as error:
            raise typer.BadParameter(f"--picture: {error}") from None
    folder = arguments.models_folder(models_dir)
    arguments.check_networks(names, batches, folder)
    comparisons: list[Comparison] = []
    machines: dict[int, Any] = {}
    jobs = [Job(name, t, n) for t in counts for n in batches for name in names]
    for job, tell in with_progress(jobs, lambda job: f"{job.network} x{job.threads}", errors):
        if job.threads not in machines:
            tell("measuring the machine")
            machines[job.threads] = measure_machine(job.threads, 0.5)
        tell("writing the network")
        network = artifacts.prepare(job.network, folder, job.batch, small=small)
        comparison = compare(network, chosen, job.threads, rounds=rounds, turn=turn, progress=tell)
        comparisons.append(comparison)
        errors.print(report.line(comparison))
    facts = report.facts(comparisons, machines, about(rounds, turn))
    console = Console(width=None if sys.stdout.isatty() else 140)
    report.show(console, facts)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")
    if table:
        table.write_text(report.markdown(facts))
    if picture_file:
        picture.write(facts, picture_file)
    if report.is_empty(facts):
        raise arguments.fail("nothing could be compared")


class Job(NamedTuple):
    """One measurement: a network with a number of threads and a batch."""

    network: str
    threads: int
    batch: int


def about(rounds: int, turn: float) -> dict[str, Any]:
    """The date, the machine, the versions of engines and the options of a run."""
    from importlib.metadata import PackageNotFoundError, version

    packages = (
        *("nnefc", "onnxruntime", "openvino", "torch", "mnn", "ncnn", "ai-edge-litert", "tract"),
        "apache-tvm",
    )
    versions: dict[str, str] = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "system": platform.platform(),
        "versions": versions,
        "rounds": rounds,
        "turn_seconds": turn,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} CPUs" if names else platform.machine()


if __name__ == "__main__":
    arguments.run(main)
