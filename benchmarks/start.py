"""Measure how soon a new process has its first result, and its private memory.

    python -m benchmarks.start --models resnet50 --rounds 7

measures processes from their start to the first result, alternately: nnefc from an artifact and
from the NNEF archive (kernels on disk), onnxruntime from `.onnx` and from its own `.ort`.  The time
of one warm run is subtracted, and in a further column that of a process which imports NumPy only.
Memory is that of a second process while a first one has the same file open.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (onnxruntime is not typed)

from __future__ import annotations

import itertools
import json as json_module
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import arguments, artifacts

WAYS: Final = ("nnefc artifact", "nnefc archive", "onnxruntime .onnx", "onnxruntime .ort")
NUMPY: Final = "Python and NumPy"
"""A process that runs no model."""

_PROGRAM: Final = """
import json, sys, time
marks = [time.monotonic()]
way, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
import numpy
if way.startswith("nnefc"):
    import nnefc
    open_ = nnefc.load if way.endswith("artifact") else nnefc.compile
    marks.append(time.monotonic())
    model = open_(path, threads=threads)
    marks.append(time.monotonic())
    inputs = [numpy.ones([abs(n) for n in spec.shape], spec.dtype) for spec in model.inputs]
    run = lambda: model(*inputs)
elif way.startswith("Python"):
    marks += [time.monotonic()] * 2
    run = lambda: None
else:
    import onnxruntime
    marks.append(time.monotonic())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    marks.append(time.monotonic())
    extents = lambda shape: [1 if isinstance(n, str) else n for n in shape]
    inputs = {i.name: numpy.ones(extents(i.shape), numpy.float32) for i in session.get_inputs()}
    run = lambda: session.run(None, inputs)
run()
marks.append(time.monotonic())
warm = []
for _ in range(5):
    start = time.monotonic()
    run()
    warm.append(time.monotonic() - start)
print(json.dumps({"marks": marks, "warm": sorted(warm)[2]}), flush=True)
sys.stdin.readline()
private = shared = 0
for line in open("/proc/self/smaps_rollup"):
    name, _, rest = line.partition(":")
    if name.startswith("Private_"):
        private += int(rest.split()[0])
    elif name.startswith("Shared_"):
        shared += int(rest.split()[0])
print(json.dumps({"private": private * 1024, "shared": shared * 1024}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Times and memory of a process."""

    total: float
    """Seconds to the first result, minus those of a warm run."""
    open: float
    """Seconds thereof to load or compile the model."""
    private: int
    """Bytes of private pages."""
    shared: int
    """Bytes of shared pages."""


class Process:
    """A process that has its first result, and waits for `finish`."""

    def __init__(self, way: str, path: Path, threads: int) -> None:
        self._way = way
        start = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, way, path, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        answer = self._answer()
        _, imported, opened, first = answer["marks"]
        self.total = first - start - answer["warm"]
        self.open = opened - imported

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise arguments.fail(f"the process of {self._way} ended")
        return json_module.loads(line)

    def finish(self) -> Start:
        """End the process; returns its times and memory."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        memory = self._answer()
        self._process.wait()
        return Start(self.total, self.open, memory["private"], memory["shared"])


def _environment() -> dict[str, str]:
    """The environment of a process that uses bytecode, as after an installation."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def main(
    models: Annotated[str, typer.Option(help="Networks of the zoo; commas between.")] = "resnet50",
    threads: Annotated[int, typer.Option(help="Threads.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Processes of each kind.", min=1)] = 7,
    json: arguments.Json = None,
    models_dir: arguments.ModelsDir = None,
) -> None:
    """Measure new processes, alternately."""
    names = arguments.items_of(models, "--models")
    arguments.check_writable(json, "--json")
    folder = arguments.models_folder(models_dir)
    arguments.check_networks(names, [1], folder)
    facts: dict[str, Any] = {}
    for name in names:
        network = artifacts.prepare(name, folder)
        files = _files(network, threads)
        files[NUMPY] = network.folder
        for way, path in files.items():
            Process(way, path, threads).finish()  # now the files are in the page cache
        starts: dict[str, list[Start]] = {way: [] for way in files}
        for _, (way, path) in itertools.product(range(rounds), files.items()):
            first = Process(way, path, threads)
            starts[way].append(Process(way, path, threads).finish())
            first.finish()
        base = statistics.median(start.total for start in starts.pop(NUMPY))
        facts[name] = {way: _summary(each, files[way], base) for way, each in starts.items()}
    for name, ways in facts.items():
        _show(name, ways)
    if json:
        json.write_text(json_module.dumps(facts, indent=1) + "\n")


def _files(network: artifacts.Network, threads: int) -> dict[str, Path]:
    """The file of each of `WAYS`; written anew, because nnefc may have changed."""
    import onnxruntime

    import nnefc

    artifact = network.file(f"{network.name}.nnefc")
    nnefc.compile(artifacts.import_graph(network), threads=threads).save(artifact)
    onnx = artifacts.require(network, "model.onnx")
    ort = network.file("model.ort")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(ort)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    return dict(zip(WAYS, (artifact, network.archive, onnx, ort), strict=True))


def _summary(starts: list[Start], path: Path, base: float) -> dict[str, float]:
    """Medians; `base`: seconds of a process that imports NumPy."""
    totals = sorted(start.total for start in starts)
    return {
        "start_seconds": statistics.median(totals),
        "least_seconds": totals[0],
        "own_seconds": statistics.median(totals) - base,
        "open_seconds": statistics.median(start.open for start in starts),
        "private_bytes": statistics.median(start.private for start in starts),
        "shared_bytes": statistics.median(start.shared for start in starts),
        "file_bytes": path.stat().st_size,
    }


def _show(name: str, ways: dict[str, dict[str, float]]) -> None:
    columns = (
        *("", "start to first result", "least", "without NumPy", "thereof open"),
        *("private", "shared", "file"),
    )
    times = ("start", "least", "own", "open")
    table = Table(*columns, title=name)
    for way, facts in ways.items():
        table.add_row(
            way,
            *(f"{1e3 * facts[f'{key}_seconds']:.1f} ms" for key in times),
            *(f"{facts[f'{key}_bytes'] / 1e6:.1f} MB" for key in ("private", "shared", "file")),
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for key, what in (("start", "time"), ("own", "time without Python and NumPy")):
        seconds = {way: facts[f"{key}_seconds"] for way, facts in ways.items()}
        ratios = (
            f"{seconds['nnefc artifact'] / seconds[way]:.2f} of {way}"
            for way in ways
            if not way.startswith("nnefc")
        )
        console.print(f"{what} of the artifact: {', '.join(ratios)}")


if __name__ == "__main__":
    arguments.run(main)
