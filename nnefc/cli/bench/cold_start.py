"""Measure the start of a fresh process up to the first result of a model."""

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
"""Start Python; import numpy and nnefc; read the model; compile it; run it once."""

ARTIFACT_STAGES: Final = ("python", "import", "load", "first_run")
"""Start Python; import numpy and nnefc; load the artifact; run it once."""

_BEGIN: Final = """
import time
marks = [time.monotonic()]
import json, sys, warnings
warnings.simplefilter("ignore")
options = json.loads(sys.argv[1])
import numpy
import nnefc
marks.append(time.monotonic())
"""
_COMPILE: Final = """
limits = nnefc.Limits(**options["limits"])
graph = nnefc.import_model(options["model"], limits=limits, **options["import"])
marks.append(time.monotonic())
model = nnefc.compile(graph, **options["compile"])
"""
_LOAD: Final = """
model = nnefc.load(options["model"], threads=options["threads"])
"""
_RUN: Final = """
shapes = options.get("shapes", {})
inputs = [numpy.zeros(shapes.get(spec.name, spec.shape), spec.dtype) for spec in model.inputs]
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

    Raises NnefError `internal/cold-start` with the last line of the process if it failed.
    """
    options = {
        "model": _absolute(model),
        "import": dict(import_options),
        "compile": dict(compile_options),
        "limits": dict(limits),
    }
    return _stages(_COMPILE, STAGES, options)


def cold_start_of_artifact(
    path: str, threads: int | None, shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, float]:
    """Seconds of each of the `ARTIFACT_STAGES`, and their `total`; `shapes`: of inputs."""
    options = {"model": _absolute(path), "threads": threads, "shapes": dict(shapes or {})}
    return _stages(_LOAD, ARTIFACT_STAGES, options)


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (pathlib would drop a trailing slash)


def _stages(program: str, stages: Sequence[str], options: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the stages of a process that loads a model with `program` and runs it once."""
    # CLOCK_MONOTONIC is the same for all processes, so the times of the child compare with ours.
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BEGIN + program + _RUN, json.dumps(options)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() == line != ""]
        raise NnefError.of(
            "internal/cold-start",
            f"a fresh process failed to run the model: {(lines or ['it printed nothing'])[-1]}",
            hint="--no-cold skips this measurement",
        )
    marks = [start, *json.loads(done.stdout.splitlines()[-1])]
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    return {**dict(zip(stages, seconds, strict=True)), "total": marks[-1] - start}
