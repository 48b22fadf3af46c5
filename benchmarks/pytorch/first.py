"""Time of new processes to the first result of a module."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from benchmarks.arguments import fail
from benchmarks.artifacts import ROOT
from benchmarks.peers import about
from benchmarks.progress import with_progress

STEPS: Final = ("import", "build", "compile", "call")

_PROGRAM: Final = """
import json, sys, time
marks = [time.time()]
name, engine, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
import torch
from benchmarks.pytorch.engines import ENGINES
from benchmarks.pytorch.networks import case
torch.set_num_threads(threads)
marks.append(time.time())
built = case(name)
marks.append(time.time())
with torch.no_grad():
    call = ENGINES[engine](built, threads)
marks.append(time.time())
call()
marks.append(time.time())
print(json.dumps(marks))
"""

_LIMIT: Final = 500
"""Seconds of a process."""


def measure_first(
    names: Sequence[str], engines: Sequence[str], threads: int, rounds: int, console: Console
) -> dict[str, Any]:
    """Medians of processes that alternate; nnefc's kernels are cached by a process before."""
    from benchmarks.pytorch.networks import NETWORKS

    results: list[dict[str, Any]] = []
    jobs = list(itertools.product(names, range(-1, rounds), engines))
    seconds: dict[tuple[str, str], list[dict[str, float]]] = {}
    for (name, turn, engine), tell in with_progress(jobs, lambda job: job[0], console):
        tell(f"{turn + 1}/{rounds} {engine}")
        starts = seconds.setdefault((name, engine), [])
        if turn >= 0:
            starts.append(_start(name, engine, threads))
        elif engine != "inductor":
            _start(name, engine, threads)
    for name in names:
        of_inductor = _medians(seconds.get((name, "inductor"), []))
        for engine in engines:
            medians = _medians(seconds[name, engine])
            quotient = medians["total"] / of_inductor["total"] if of_inductor else None
            title = NETWORKS[name].title
            found = {"name": name, "title": title, "engine": engine, "of_inductor": quotient}
            results.append({**found, **medians})
    return {**about(rounds, 0), "threads": threads, "results": results}


def _medians(starts: Sequence[dict[str, float]]) -> dict[str, float]:
    if not starts:
        return {}
    return {key: statistics.median(each[key] for each in starts) for key in starts[0]}


def _start(name: str, engine: str, threads: int) -> dict[str, float]:
    """Seconds of the steps of a process, and of all without those to build the module.

    Inductor finds nothing in its cache.
    """
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = {
        **inherited,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": str(threads),
    }
    with tempfile.TemporaryDirectory() as new:
        environment["TORCHINDUCTOR_CACHE_DIR"] = new
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, name, engine, str(threads)],
            cwd=ROOT.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    if done.returncode:
        raise fail(f"the process of {engine} ended: {done.stderr.strip()[-300:]}")
    marks = json.loads(done.stdout.strip().splitlines()[-1])
    steps = dict(zip(STEPS, (b - a for a, b in itertools.pairwise(marks))))
    return {"total": sum(steps.values()) - steps["build"], **steps}
