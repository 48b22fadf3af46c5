"""Every kernel for every vector width: results where the code can run, linked code elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc.kernels.target.isa import TABLE, executable
from nnefc.kernels.vector.instructions import INSTRUCTIONS
from nnefc.ops.tools.table import standard
from tests.helpers.kernels.width_subjects import ANY
from tests.helpers.kernels.widths import SHUFFLES, is_repeated

ROOT = Path(__file__).resolve().parents[2]
MEASURING = {
    "measure.limits.multiply_add",
    "measure.limits.dots",
    "measure.limits.read",
    "measure.limits.copy",
    "measure.probe.stamp",
}
"""Families that only measure the machine."""
WIDE_ONLY = {"movement.channels.lanes"}
"""Families for shuffles with many patterns, which do not occur with short vectors."""


EXTENSIONS = {
    "convolution.direct_halves.convolution",
    "convolution.direct_matrices.convolution",
    "product.attention_halves.rows",
    "product.block_matmul.product",
    "product.block_rows.convert",
    "product.half_matmul.product",
    "product.matrix_code_matmul.product",
    "product.matrix_matmul.product",
}
"""Families for extensions that no row has; `test_isa_rows` covers them."""
EXTENSION_SOURCES = {"kernels/vector/quick_halves.py"}
"""Sources for these families alone."""


def families() -> set[str]:
    kernels = ROOT / "kernels"
    found = {
        ".".join((*path.relative_to(kernels).with_suffix("").parts, name.rstrip("_")))
        for path in kernels.rglob("*.py")
        for name in re.findall(r"^@family\(.*\)\ndef (\w+)", path.read_text(), re.M)
    }
    assert len(found) > 60
    return found


HOST = executable()[0].name
ROWS = [pytest.param(row, marks=[pytest.mark.exhaustive] if row == HOST else []) for row in TABLE]
"""Other tests run all kernels on the row of the host."""


@pytest.mark.longest
@pytest.mark.parametrize("row", ROWS)
def test_every_kernel_runs_or_links(row: str, exhaustive: bool) -> None:
    runs = row in {isa.name for isa in executable()}
    environment = {key: value for key, value in os.environ.items() if key != "NNEFC_ISA"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.helpers.kernels.widths", row),
            *(["--exhaustive"] if exhaustive else []),
        ],
        env=environment | ({"NNEFC_ISA": row} if runs else {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *reached, last = done.stdout.split("\n")[:-1]
    assert last.startswith("executed" if runs else "linked")
    unreached = families() - set(reached) - MEASURING - EXTENSIONS
    assert not unreached - (WIDE_ONLY if TABLE[row].float32_lanes <= 4 else set())


def test_the_elementwise_subject_uses_every_standard_operation() -> None:
    """Other operations are covered by their samples."""
    names = set(re.findall(r"(\w+)(?:<\w+>)?\(", ANY["elementwise"]))
    assert not {name for name in INSTRUCTIONS if name in standard()} - names


def test_repeated_rows_differ_in_shuffles() -> None:
    """Other kernels get the same instructions for LLVM as with the row before."""
    names = list(TABLE)
    for row in filter(is_repeated, TABLE.values()):
        before = TABLE[names[names.index(row.name) - 1]]
        pairs = zip(before._asdict().items(), row, strict=True)
        fields = {name for (name, value), other in pairs if value != other} - {"name", "cpu"}
        assert fields
        reads = re.compile(rf"\b(?:isa|host\(\))\.(?:{'|'.join(fields)})\b")
        paths = (ROOT / "kernels").rglob("*.py")
        found = {str(path.relative_to(ROOT)) for path in paths if reads.search(path.read_text())}
        assert found == {*SHUFFLES, *EXTENSION_SOURCES}
