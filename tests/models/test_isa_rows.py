"""Tests of models and kernels pass for every instruction set that this machine can execute.

`NNEFC_ISA` selects a row of `nnefc.kernels.target.isa` for a whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.kernels.target.isa import executable
from tests.helpers.nnef.conformance import needs_conformance

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("row", [isa.name for isa in executable()[1:]])
@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("models/test_compressed.py", "float64 or epilogues or share or gathered"),
        pytest.param("models/test_conformance.py", "", marks=needs_conformance),
        ("kernels/movement/test_strided.py", "transpose"),
        ("kernels/vector/test_scalar.py", ""),
        ("kernels/vector/test_math.py", ""),
    ],
)
def test_tests_pass_for_other_instruction_sets(file: str, chosen: str, row: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *(TESTS / file, "-k", chosen),
        ],
        env=os.environ | {"NNEFC_ISA": row},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
