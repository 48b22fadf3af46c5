"""The same kernels give the same packs, wherever and in whatever order they are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from kernel_packs.compile import compile_unit
from kernel_packs.pieces import pieces
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.reduce import softmax
from nnefc.kernels.tile import zero_halo as halo
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.compile_unit import shipped_key_of
from nnefc.runtime.shipped.pack_file import pack
from nnefc.kernels.target.isa import host

units = [elementwise.copy(), softmax.rows("float32"), *support_code.functions("executor")]
units = units[:: int(sys.argv[1])]
codes = {shipped_key_of(unit, host()): pieces(compile_unit(unit)) for unit in units}
sys.stdout.buffer.write(pack(codes))
"""


@pytest.mark.slow
@pytest.mark.parametrize("row", ["x86-64-v3+avxvnni", "aarch64"])
def test_packs_are_reproducible(row: str) -> None:
    packs = [
        subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, step],
            capture_output=True,
            check=True,
            env={
                **os.environ,
                "NNEFC_ISA": f"build:{row}",
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join((str(ROOT / "build_backend"), str(ROOT))),
            },
        ).stdout
        for step, seed in (("1", "1"), ("-1", "2"))
    ]
    assert packs[0] == packs[1]
    assert len(packs[0]) > 5000
