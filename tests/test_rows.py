"""Tests once more, on the other rows of `nnefc.kernels.isa` that this machine can execute.

Kernels of another row need a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.kernels.isa import executable
from tests.conformance import needs_conformance

TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("row", [isa.name for isa in executable()[1:]])
@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("test_compressed.py", "float64 or follows or share or gathered"),
        pytest.param("test_conformance.py", "", marks=needs_conformance),
        ("test_kernels_movement.py", "transpose"),
        ("test_kernels_scalar.py", ""),
        ("test_kernels_vector_math.py", ""),
    ],
)
def test_other_rows(file: str, chosen: str, row: str) -> None:
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
