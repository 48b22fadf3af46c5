"""Models of torchvision, timm and transformers, compiled by `nnefc.pytorch.compile`; detectors by
`torch.compile`.

    python -m benchmarks.pytorch_models --suite torchvision
    python -m benchmarks.pytorch_models --suite transformers --only bert,t5
    python -m benchmarks.pytorch_models --suite timm --json timm.json --resume

Results are compared with those of eager PyTorch.
"""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments
from benchmarks.progress import with_progress
from benchmarks.pytorch_models.checked import Checked, Status
from benchmarks.pytorch_models.isolated_check import isolated_check
from benchmarks.pytorch_models.suites import SUITES

errors = Console(stderr=True)


def main(
    suite: Annotated[str, typer.Option(help=f"Suites; commas between: {', '.join(SUITES)}.")],
    only: Annotated[str, typer.Option(help="Models; commas between (default: all).")] = "",
    seconds: Annotated[float, typer.Option(help="Limit of time for a model.", min=1)] = 300,
    gigabytes: Annotated[float, typer.Option(help="Limit of memory for a model.", min=1)] = 12,
    json: arguments.Json = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out what the file of --json has as right.")
    ] = False,
) -> None:
    """Compile models of other packages, and compare their results with eager PyTorch."""
    suites = arguments.known_of(suite, "--suite", [*SUITES])
    for package in ("torch", *(SUITES[each] for each in suites)):
        if find_spec(package) is None:
            raise arguments.fail(f"{package} is not installed: nnefc[bench]")
    arguments.check_writable(json, "--json")
    known = _known(json) if resume else {}
    jobs = _jobs(suites, only)
    results: dict[str, dict[str, Checked]] = {name: known.get(name, {}) for name in suites}
    left = [(s, name) for s, name in jobs if not _is_right(results[s].get(name))]
    for (package, name), tell in with_progress(left, lambda job: " ".join(job), errors):
        tell("compiling")
        checked = isolated_check(package, name, seconds, gigabytes)
        results[package][name] = checked
        if not _is_right(checked):
            reason = checked.message or f"differs by {checked.difference:.1e}"
            errors.print(f"{name}: {reason}", highlight=False, markup=False)
        if json:
            json.write_text(json_module.dumps(_facts(results), indent=1) + "\n")
    chosen = {package: [results[p][n] for p, n in jobs if p == package] for package in suites}
    for package, listed in chosen.items():
        _show(package, listed)
    if not all(map(_is_right, (each for listed in chosen.values() for each in listed))):
        raise arguments.fail("some models fail or differ")


def _jobs(suites: Sequence[str], only: str) -> list[tuple[str, str]]:
    from benchmarks.pytorch_models.suites import suite

    jobs = [(package, name) for package in suites for name in suite(package).names()]
    if not only:
        return jobs
    wanted = arguments.known_of(only, "--only", [name for _, name in jobs])
    return [job for job in jobs if job[1] in wanted]


def _is_right(checked: Checked | None) -> bool:
    return checked is not None and checked.status is Status.RIGHT


# -- results


def _facts(results: dict[str, dict[str, Checked]]) -> dict[str, Any]:
    return {package: [*map(asdict, listed.values())] for package, listed in results.items()}


def _known(json: Path | None) -> dict[str, dict[str, Checked]]:
    """The results that a file of an earlier run has."""
    if json is None:
        raise typer.BadParameter("--resume needs --json")
    if not json.exists():
        return {}
    facts = json_module.loads(json.read_text())
    return {
        package: {each["name"]: Checked.read(each) for each in listed}
        for package, listed in facts.items()
    }


def _show(package: str, results: Sequence[Checked]) -> None:
    table = Table("model", "", "difference", "seconds", "parameters", "reason")
    right = sum(map(_is_right, results))
    table.title = f"{package}: {right} of {len(results)} agree with eager PyTorch"
    for each in results:
        table.add_row(
            each.name,
            each.status,
            "" if each.difference is None else f"{each.difference:.1e}",
            "" if each.seconds is None else f"{each.seconds:.1f}",
            "" if each.parameters is None else f"{each.parameters / 1e6:.1f} M",
            each.message if len(each.message) <= 200 else f"{each.message[:197]}...",
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table, markup=False)


if __name__ == "__main__":
    arguments.run(main)
