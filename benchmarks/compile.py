"""Measure how long new processes compile: with an empty cache, and with one that has everything.

    python -m benchmarks.compile --models digits,mobilenet_v2,resnet50 --rounds 5

`cold` compiles with an empty cache, `kernels` with cached kernels but `keep=False`, `warm` with a
cached model.  Times begin after `import nnefc`.  `--python` names interpreters of other
environments, such as one with another version or with a release wheel; they take turns with this
one.  No process compiles kernels ahead.
"""

from __future__ import annotations

import json as json_module
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments, artifacts

DIGITS: Final = "digits"
"""The network of `nnefc demo`."""
WAYS: Final = ("cold", "kernels", "warm")

_PROGRAM: Final = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
path, threads, keep, demo = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "keep", sys.argv[4]
import nnefc
if path == demo:
    import nnefc.cli.digits
    path = nnefc.cli.digits.ARCHIVE
start = time.monotonic()
model = nnefc.compile(path, threads=threads, keep=keep)
seconds = time.monotonic() - start
own = [name for name in sys.modules if name.partition(".")[0] == "nnefc"]
print(json.dumps({
    "seconds": seconds,
    "processor_seconds": sum(__import__("os").times()[:4]),
    "modules": len(own),
    "compiler": "numba" in sys.modules or "llvmlite" in sys.modules,
}))
"""


def main(
    models: Annotated[
        str, typer.Option(help="Networks of the zoo, or digits; commas between.")
    ] = "digits,mobilenet_v2,resnet50,bert,yolo",
    python: Annotated[
        list[Path] | None, typer.Option(help="Another interpreter, which has nnefc installed.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads.", min=1)] = 2,
    rounds: Annotated[int, typer.Option(help="Processes of each kind.", min=1)] = 5,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure new processes, alternately."""
    names = arguments.items_of(models, "--models")
    arguments.check_writable(json, "--json")
    folder = arguments.models_folder(models_dir)
    arguments.check_networks([name for name in names if name != DIGITS], [1], folder)
    interpreters = [Path(sys.executable), *(python or [])]
    facts: dict[str, Any] = {}
    for name in names:
        path = DIGITS if name == DIGITS else str(artifacts.prepare(name, folder).archive)
        runs: list[dict[str, dict[str, Any]]] = [{} for _ in interpreters]
        for _ in range(rounds):
            for interpreter, results in zip(interpreters, runs, strict=True):
                for way, result in _round(interpreter, path, threads).items():
                    results.setdefault(way, {}).setdefault("runs", []).append(result)
        facts[name] = {
            str(interpreter): {way: _summary(each["runs"]) for way, each in results.items()}
            for interpreter, results in zip(interpreters, runs, strict=True)
        }
        _show(name, facts[name])
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


def _round(interpreter: Path, path: str, threads: int) -> dict[str, dict[str, Any]]:
    """The results of one process for each of `WAYS`, with a cache of their own."""
    cache = Path(tempfile.mkdtemp(prefix="nnefc-compile-"))
    try:
        cold = _run(interpreter, path, threads, "keep", cache)
        kernels = _run(interpreter, path, threads, "not", cache)
        return {
            "cold": cold,
            "kernels": kernels,
            "warm": _run(interpreter, path, threads, "keep", cache),
        }
    finally:
        shutil.rmtree(cache)


def _run(interpreter: Path, path: str, threads: int, keep: str, cache: Path) -> dict[str, Any]:
    own = interpreter == Path(sys.executable)
    search = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if own else {}
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    }
    done = subprocess.run(
        [interpreter, "-P", "-c", _PROGRAM, path, str(threads), keep, DIGITS],
        env={**inherited, **search, "NNEFC_CACHE": str(cache), "NNEFC_AHEAD": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise arguments.fail(f"{interpreter} cannot compile {path}: {lines[-1]}")
    return json_module.loads(done.stdout)


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [run["seconds"] for run in runs]
    return {
        "seconds": statistics.median(seconds),
        "least_seconds": min(seconds),
        "processor_seconds": statistics.median(run["processor_seconds"] for run in runs),
        "modules": runs[-1]["modules"],
        "compiler": any(run["compiler"] for run in runs),
    }


def _show(name: str, ways: dict[str, dict[str, dict[str, Any]]]) -> None:
    columns = ("interpreter", "", "compile", "least", "processor", "modules", "numba or LLVM")
    table = Table(*columns, title=name)
    for interpreter, results in ways.items():
        for way, facts in results.items():
            table.add_row(
                interpreter if way == WAYS[0] else "",
                way,
                f"{facts['seconds']:.3f} s",
                f"{facts['least_seconds']:.3f} s",
                f"{facts['processor_seconds']:.2f} s",
                str(facts["modules"]),
                "imported" if facts["compiler"] else "no",
            )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    arguments.run(main)
