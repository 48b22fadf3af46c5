"""A process that finds its model in the cache imports only the modules that run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.cli.digits import ARCHIVE
from tests.helpers.artifacts.model_cache import entries

pytestmark = pytest.mark.usefixtures("keep_models")

PROGRAM = """
import json, sys
import numpy
before = set(sys.modules)
import nnefc
model = nnefc.compile(sys.argv[1], threads=1)
compiled = sorted(set(sys.modules) - before)
model(*[numpy.zeros([abs(n) for n in spec.shape], spec.dtype) for spec in model.inputs])
print(json.dumps([compiled, sorted(set(sys.modules) - before)]))
"""
PACKAGES = ("symbolic", "syntax", "ir", "ops", "frontends", "program", "passes", "lower", "driver")
LIGHT = {"nnefc.driver", "nnefc.driver.compile", "nnefc.driver.lower_graph"}
"""Modules of `driver` that import nothing until they are used."""


def modules(source: Path) -> tuple[set[str], set[str]]:
    """The modules beside NumPy's that a new process imports for `compile`, and then for a call.

    Symbolic extents are 1 there.
    """
    command = [sys.executable, "-P", "-c", PROGRAM, str(source)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    compiled, called = json.loads(done.stdout)
    return set(compiled), set(called)


def test_a_cached_model_needs_few_modules(folder: Path) -> None:
    first, _ = modules(ARCHIVE)
    assert "nnefc.lower.context" in first
    assert len(entries(folder)) == 1
    compiled, called = modules(ARCHIVE)
    for package in PACKAGES:
        assert not {name for name in called if name.startswith(f"nnefc.{package}.")} - LIGHT
    heavy = {"numba", "llvmlite", "dataclasses", "hashlib", "tempfile", "threading", "subprocess"}
    assert not called & heavy
    assert len([name for name in compiled if name.startswith("nnefc")]) <= 76
