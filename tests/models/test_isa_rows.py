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
from tests.helpers.kernels.widths import is_repeated

TESTS = Path(__file__).parents[1]


ROWS = executable()[1:]
FILES = {
    "kernels/convolution/test_depthwise_codes.py": "exact or 14-3-1",
    "kernels/convolution/test_code_results.py": "",
    "kernels/convolution/test_direct_codes.py": "",
    "models/test_compressed.py": "float64 or epilogues or share or gathered",
    "kernels/movement/test_strided.py": "transpose",
    "kernels/product/test_code_matmul.py": "reals or (requantized and 2-uint8)",
    "kernels/vector/test_expression_argument.py": "",
    "kernels/vector/test_math.py": "",
    "kernels/vector/test_requantization.py": "",
}
"""The tests that are chosen from each module."""
WITHOUT_SHUFFLES = {
    "kernels/vector/test_expression_argument.py",
    "kernels/vector/test_math.py",
}
"""Modules that have nothing new for a row with vectors as long as those of another."""
OTHER_WIDTHS = [isa for isa in ROWS if not is_repeated(isa)]
ONE_ROW = {"models/test_compressed.py", "kernels/vector/test_math.py"}
"""Modules that only the first of these rows has in every run."""
CASES = [
    pytest.param(
        file,
        chosen,
        isa.name,
        id=f"{file}-{isa.name}",
        marks=[pytest.mark.exhaustive] if file in ONE_ROW and [isa] != OTHER_WIDTHS[:1] else [],
    )
    for file, chosen in FILES.items()
    for isa in ROWS
    if not (is_repeated(isa) and file in WITHOUT_SHUFFLES)
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "chosen", "row"), CASES)
def test_tests_pass_for_other_instruction_sets(file: str, chosen: str, row: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            "--hypothesis-profile=quick",
            *(TESTS / file, "-k", chosen),
        ],
        env=os.environ | {"NNEFC_ISA": row},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
