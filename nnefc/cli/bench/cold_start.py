"""How long a program takes from nothing to its first result, measured in a process of its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nnefc.support.errors import NnefError

STAGES: Final = ("python", "import", "read", "compile", "first_run")
"""Until Python runs our first line; import numpy, nnefc; read the model; compile it; one run."""

ARTIFACT_STAGES: Final = ("python", "import", "load", "first_run")
"""The same for an artifact: load it; one run."""

_BEGIN: Final = """
import time
marks = [time.monotonic()]
import json, sys, warnings
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
import numpy
import nnefc
marks.append(time.monotonic())
"""
_COMPILE: Final = """
limits = nnefc.Limits(**given["limits"])
graph = nnefc.import_model(given["model"], limits=limits, **given["import"])
marks.append(time.monotonic())
model = nnefc.compile(graph, **given["compile"])
"""
_LOAD: Final = """
model = nnefc.load(given["model"], threads=given["threads"])
"""
_RUN: Final = """
inputs = [numpy.ones(spec.shape, spec.dtype) for spec in model.inputs]
marks.append(time.monotonic())
model(*inputs)
marks.append(time.monotonic())
print(json.dumps(marks))
"""


def cold_start(
    model: str,
    *,
    import_options: Mapping[str, Any],
    compile_options: Mapping[str, Any],
    limits: Mapping[str, int],
) -> dict[str, float]:
    """Seconds of each of the `STAGES`, and their `total`.

    Raises NnefError `internal/cold-start` with what the process said if it failed.
    """
    given = {
        "model": _absolute(model),
        "import": dict(import_options),
        "compile": dict(compile_options),
        "limits": dict(limits),
    }
    return _stages(_COMPILE, STAGES, given)


def cold_start_of_artifact(path: str, threads: int | None) -> dict[str, float]:
    """The same of the `ARTIFACT_STAGES`."""
    return _stages(_LOAD, ARTIFACT_STAGES, {"model": _absolute(path), "threads": threads})


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a trailing slash means something)


def _stages(program: str, stages: Sequence[str], given: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the stages of a process that gets a model by `program`, and runs it."""
    # The clock is that of the system (CLOCK_MONOTONIC): the child's moments compare with ours.
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BEGIN + program + _RUN, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() == line != ""]
        raise NnefError.of(
            "internal/cold-start",
            f"a fresh process failed to run the model: {(said or ['it said nothing'])[-1]}",
            hint="--no-cold leaves this measurement out",
        )
    marks = [start, *json.loads(done.stdout.splitlines()[-1])]
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    return {**dict(zip(stages, seconds, strict=True)), "total": marks[-1] - start}
