"""Every kernel with vectors of every width: right where they run, whole objects elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.kernels import scalar
from nnefc.kernels.isa import TABLE, executable
from nnefc.ops.table import standard
from tests.width_subjects import ANY

ROOT = Path(__file__).resolve().parents[1]
MEASURING = {"machine.multiply_add", "machine.read", "machine.copy", "probe.stamp"}
"""Families that compute nothing of a model."""
WIDE_ONLY = {"channels.lanes"}
"""Families for shuffles in too many patterns, which short vectors do not have."""


def families() -> set[str]:
    sources = (path.read_text() for path in (ROOT / "nnefc" / "kernels").glob("*.py"))
    return {name for source in sources for name in re.findall(r'^@family\("([^"]*)"', source, re.M)}


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE)
def test_every_kernel(row: str) -> None:
    runs = row in {isa.name for isa in executable()}
    environment = {key: value for key, value in os.environ.items() if key != "NNEFC_ISA"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.widths", row],
        env=environment | ({"NNEFC_ISA": row} if runs else {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *reached, last = done.stdout.split("\n")[:-1]
    assert last.startswith("executed" if runs else "linked")
    unreached = families() - set(reached) - MEASURING
    assert not unreached - (WIDE_ONLY if TABLE[row].float32_lanes <= 4 else set())


def test_subjects_have_every_elementwise_operation() -> None:
    """Those of the standard; the others are subjects by their samples."""
    names = set(re.findall(r"(\w+)(?:<\w+>)?\(", ANY["elementwise"]))
    assert not {name for name in scalar.operations() if name in standard()} - names
