"""C programs for aarch64, which run in an emulator (Debian's gcc-aarch64-linux-gnu, qemu-user)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.artifacts.c_programs import LIBRARIES

CROSS = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = next(filter(None, map(shutil.which, ("qemu-aarch64", "qemu-aarch64-static"))), None)

needs_emulator = pytest.mark.skipif(
    not CROSS or not EMULATOR, reason="no compiler and emulator for aarch64"
)


def emulated_program(folder: Path, name: str, cpu: str = "max") -> Path:
    """The example program of the model `name` in a folder, as a script; `cpu`: of the emulator."""
    assert CROSS and EMULATOR
    command = [CROSS, "-static", "main.c", f"{name}.o", "-o", "example.arm", *LIBRARIES]
    subprocess.run(command, cwd=folder, check=True)
    program = folder / "example"
    program.write_text(f'#!/bin/sh\nexec {EMULATOR} -cpu {cpu} ./example.arm "$@"\n')
    program.chmod(0o755)
    return program
