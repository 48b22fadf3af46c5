"""Tests of models and kernels pass for every instruction set that this machine can execute.

`NNEFC_ISA` selects a row of `nnefc.kernels.target.isa` for a whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.kernels.target.isa import TABLE, Isa, executable, executable_variants, host
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
    "kernels/product/test_computed_code_matmul.py": "exact",
    "passes/quantize/test_code_softmax.py": "halves or (rows_of and 1-197)",
    "kernels/vector/test_expression_argument.py": "",
    "kernels/vector/test_math.py": "",
    "kernels/vector/test_requantization.py": "",
}
"""The tests that are chosen from each module."""
PAIRS = {
    "kernels/convolution/test_code_results.py": "not test_residuals[ or even-False-uint8"
    " or even-True-int8 or up-False-int8 or up-True-uint8"
}
"""The tests of modules in every run that have each pair of parameters for every kind of kernel.
The row of the host has all combinations."""
REPEATED = {"kernels/product/test_code_matmul.py", "passes/quantize/test_code_softmax.py"}
"""Modules that a row with vectors as long as those of another has in every run: one with shuffles,
which differ, and one with products."""
HALF_FILES = {
    "kernels/product/test_half_attention.py": "",
    "kernels/product/test_half_matmul.py": "",
    "passes/machine/test_half_convolutions.py": "",
}
"""Modules for rows that multiply bfloat16, which not every processor does by default."""
OTHER_WIDTHS = [isa for isa in ROWS if not is_repeated(isa)]
ONE_ROW = {"models/test_compressed.py", "kernels/vector/test_math.py"}
"""Modules that only the first of these rows has in every run."""


def chosen(isa: Isa) -> set[str]:
    """The modules that a row has in every run."""
    if is_repeated(isa):
        return REPEATED
    return FILES.keys() - (ONE_ROW if [isa] != OTHER_WIDTHS[:1] else set())


@pytest.mark.slow
@pytest.mark.parametrize("row", [isa.name for isa in ROWS])
def test_tests_pass_for_other_instruction_sets(row: str, exhaustive: bool) -> None:
    """One process a row: starting pytest takes longer than the tests of most modules."""
    files = FILES.keys() if exhaustive else chosen(TABLE[row])
    fewer = {} if exhaustive else PAIRS
    names = FILES | fewer
    run_tests(row, {file: names[file] for file in FILES if file in files})


def is_like_another(isa: Isa) -> bool:
    """Whether the tests of the host, or of longer vectors, run the same loops."""
    fields = ("name", "bfloat16_dot", "halves", "matrix_dot")
    if all(getattr(isa, field) == getattr(host(), field) for field in fields):
        return True
    return (isa.matrix_dot != "" and host().matrix_dot != "") or isa.float32_lanes == 8


HALF_ROWS = [
    pytest.param(name, marks=[pytest.mark.exhaustive] if is_like_another(isa) else [])
    for name, isa in executable_variants().items()
    if isa.bfloat16_dot or isa.matrix_dot
]


@pytest.mark.slow
@pytest.mark.parametrize("row", HALF_ROWS)
def test_products_of_bfloat16(row: str) -> None:
    run_tests(row, HALF_FILES)


CODE_FILES = {
    "kernels/product/test_code_matmul.py": "",
    "kernels/product/test_computed_code_matmul.py": "exact",
    "kernels/product/test_matrix_codes.py": "",
    "models/test_block_products.py": "" if host().matrix_dot else "not same_bits",
}
"""Modules for rows that multiply codes by instructions of their own, in vectors or matrices.

The host is compared with these rows bit by bit, unless it has matrix registers."""


def multiplies_codes_like_another(isa: Isa) -> bool:
    """Whether the tests of the host, or of another row, multiply codes by the same loops.

    Rows with products of bfloat16, too, and v4 with short vectors multiply codes as others do.
    """
    fields = ("name", "byte_dot", "matrix_byte_dot")
    if all(getattr(isa, field) == getattr(host(), field) for field in fields):
        return True
    return bool(isa.bfloat16_dot) or isa.name == "x86-64-v4-256"


CODE_ROWS = [
    pytest.param(name, marks=[pytest.mark.exhaustive] if multiplies_codes_like_another(isa) else [])
    for name, isa in executable_variants().items()
    if isa.byte_dot
]


@pytest.mark.slow
@pytest.mark.parametrize("row", CODE_ROWS)
def test_products_of_codes(row: str) -> None:
    run_tests(row, CODE_FILES)


def run_tests(row: str, files: dict[str, str]) -> None:
    """Run tests of some modules in a process for a row; fail if one fails."""
    names = " or ".join(
        f"({Path(file).name} and ({names}))" if names else Path(file).name
        for file, names in files.items()
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *("--hypothesis-profile=quick", "-k", names),
            *(TESTS / file for file in files),
        ],
        env=os.environ | {"NNEFC_ISA": row},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
