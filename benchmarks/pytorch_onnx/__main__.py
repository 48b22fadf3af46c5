"""Networks of PyTorch, exported to ONNX by both of its exporters.

    python -m benchmarks.pytorch_onnx --check
    python -m benchmarks.pytorch_onnx --check --exporter dynamo --shapes fixed bert,llama
    python -m benchmarks.pytorch_onnx --time --threads 1,2 --json run.json vit,yolo

`--check` compares the results of small networks with PyTorch's, `--time` measures networks of real
size in nnefc, onnxruntime and OpenVINO.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments, report
from benchmarks.progress import with_progress

if TYPE_CHECKING:
    from benchmarks.measure import Comparison
    from benchmarks.pytorch_onnx.check import Checked
    from benchmarks.pytorch_onnx.export import Variant
    from benchmarks.pytorch_onnx.network import Network

errors = Console(stderr=True)

_ENGINES = "nnefc,onnxruntime,openvino"
"""The engines that read the exported file itself."""


class Size(StrEnum):
    SMALL = "small"
    REAL = "real"


class Exporter(StrEnum):
    TORCHSCRIPT = "torchscript"
    DYNAMO = "dynamo"
    BOTH = "both"


class Shapes(StrEnum):
    FIXED = "fixed"
    DYNAMIC = "dynamic"
    BOTH = "both"


class Job(NamedTuple):
    """An export of a network, and the number of threads that it is measured with."""

    network: str
    variant: Variant
    threads: int = 1

    @property
    def title(self) -> str:
        return f"{self.network} ({self.variant.title})"


def main(
    names: Annotated[str, typer.Argument(help="Networks; commas between (default: all).")] = "",
    check: Annotated[bool, typer.Option("--check", help="Compare with PyTorch.")] = False,
    time: Annotated[bool, typer.Option("--time", help="Measure engines alternately.")] = False,
    size: Annotated[
        Size | None, typer.Option(help="Size of the networks (default: small, real for --time).")
    ] = None,
    exporter: Annotated[Exporter, typer.Option(help="Exporters.")] = Exporter.BOTH,
    shapes: Annotated[
        Shapes | None, typer.Option(help="Whether axes vary (default: both, fixed for --time).")
    ] = None,
    engines: arguments.Engines = _ENGINES,
    threads: arguments.ThreadCounts = "1",
    rounds: arguments.Rounds = 15,
    turn: arguments.Turn = 0.15,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Check or measure networks exported from PyTorch."""
    if check == time:
        raise typer.BadParameter("one of --check and --time is needed")
    dynamo = () if exporter is Exporter.TORCHSCRIPT else ("onnxscript",)
    for package in ("torch", "onnx", "onnxruntime", *dynamo):
        if find_spec(package) is None:
            raise arguments.fail(f"{package} is not installed: nnefc[bench]")
    from benchmarks.pytorch_onnx import vision_operators

    vision_operators.ensure()
    from benchmarks.pytorch_onnx.networks import NETWORKS

    wanted = arguments.known_of(names, "NAMES", NETWORKS) if names else list(NETWORKS)
    chosen = arguments.known_of(engines, "--engines", _ENGINES.split(","))
    counts = arguments.counts_of(threads, "--threads")
    arguments.check_writable(json, "--json")
    folder = arguments.models_folder(models_dir)
    small = (size or (Size.SMALL if check else Size.REAL)) is Size.SMALL
    variants = _variants(exporter, shapes or (Shapes.BOTH if check else Shapes.FIXED))
    jobs = [Job(name, each) for name in wanted for each in variants]
    if check:
        checked = _check(jobs, folder, small=small)
        results: Any = [asdict(each) for each in checked]
        wrong = "" if all(each.is_right for each in checked) else "some exports fail or differ"
    else:
        jobs = [job._replace(threads=count) for count in counts for job in jobs]
        results = _measure(jobs, folder, chosen, rounds, turn, small=small)
        wrong = "nothing could be compared" if report.is_empty(results) else ""
    if json:
        json.write_text(json_module.dumps(results, indent=1) + "\n")
    if wrong:
        raise arguments.fail(wrong)


def _variants(exporter: Exporter, shapes: Shapes) -> list[Variant]:
    from benchmarks.pytorch_onnx.export import EXPORTERS, Variant

    exporters = EXPORTERS if exporter is Exporter.BOTH else (exporter.value,)
    kinds = {Shapes.FIXED: (False,), Shapes.DYNAMIC: (True,), Shapes.BOTH: (False, True)}
    return [Variant(name, dynamic) for name in exporters for dynamic in kinds[shapes]]


def _networks(
    jobs: Sequence[Job], *, small: bool
) -> Iterator[tuple[Job, Network, Callable[[str], None]]]:
    """Jobs with their networks; those that cannot be built here are left out with a note."""
    import torch

    from benchmarks.pytorch_onnx.networks import NETWORKS

    for job, tell in with_progress(jobs, lambda job: f"{job.title} x{job.threads}", errors):
        entry = NETWORKS[job.network]
        missing = [name for name in entry.packages if find_spec(name) is None]
        if missing:
            errors.print(f"{job.title}: {', '.join(missing)} is not installed", highlight=False)
            continue
        tell("building")
        torch.manual_seed(0)
        network = entry.make(small)
        if network.axes or not job.variant.dynamic:
            yield job, network, tell


# -- results


def _check(jobs: Sequence[Job], folder: Path, *, small: bool) -> list[Checked]:
    from benchmarks.pytorch_onnx.check import check

    results: list[Checked] = []
    for job, network, tell in _networks(jobs, small=small):
        checked = check(job.network, network, job.variant, folder, small=small, tell=tell)
        results.append(checked)
        if checked.failure:
            errors.print(f"{job.title}: {checked.failure}", highlight=False, markup=False)
    _show(results)
    return results


def _show(results: Sequence[Checked]) -> None:
    table = Table("network", "exporter", "axes", "nnefc", "onnxruntime", "launches", "")
    table.title = "largest difference from PyTorch, relative to the largest item of a result"
    for each in results:
        other = each.onnxruntime
        table.add_row(
            each.network,
            each.exporter,
            "dynamic" if each.dynamic else "fixed",
            "" if each.failure else f"{each.error:.1e}",
            other if isinstance(other, str) else f"{other:.1e}",
            str(each.launches or ""),
            "" if each.is_right else ("failed" if each.failure else "wrong"),
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


# -- speed


def _measure(
    jobs: Sequence[Job],
    folder: Path,
    engines: Sequence[str],
    rounds: int,
    turn: float,
    *,
    small: bool,
) -> dict[str, Any]:
    from benchmarks.measure import compare
    from benchmarks.peers import about
    from benchmarks.pytorch_onnx.exported_files import files_of
    from nnefc.runtime.machine.roofline import measure_roofline

    machines = {count: measure_roofline(count, 0.5) for count in {job.threads for job in jobs}}
    comparisons: list[Comparison] = []
    for job, network, tell in _networks(jobs, small=small):
        tell("exporting")
        try:
            files = files_of(job.network, network, job.variant, folder, small=small)
        except Exception as error:
            errors.print(f"{job.title}: export: {error}", highlight=False, markup=False)
            continue
        comparison = compare(files, engines, job.threads, rounds=rounds, turn=turn, progress=tell)
        comparisons.append(comparison)
        errors.print(report.line(comparison))
    facts = report.facts(comparisons, machines, about(rounds, turn))
    report.show(Console(width=None if sys.stdout.isatty() else 140), facts)
    return facts


if __name__ == "__main__":
    arguments.run(main)
