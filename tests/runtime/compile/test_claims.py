"""Processes that need a kernel that another one is compiling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnefc.runtime.compile import kernel_compiler
from nnefc.runtime.compile.compile_unit import Function
from nnefc.runtime.compile.kernel_compiler import object_code

PROGRAM = """
import os, sys, time
from nnefc.kernels.codegen import object_code as codegen
from nnefc.kernels.tile import zero_halo as halo
from nnefc.runtime.compile import kernel_compiler, wait_for_process

emit, seconds = codegen.emit, float(sys.argv[1])
wait_for_process._PATIENCE *= float(sys.argv[2])
def noted(*given):
    print("compiling", flush=True)
    time.sleep(seconds)
    return emit(*given)
codegen.emit = noted
units = [halo.zero_halo()]
print(len(kernel_compiler.object_codes(units)), flush=True)
"""


def start(folder: Path, seconds: float, patience: float = 1) -> subprocess.Popen[str]:
    """A process that takes `seconds` longer to compile its kernel.

    It waits for another one `patience` times as long as usual.
    """
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seconds), str(patience)],
        env={**os.environ, "NNEFC_CACHE": str(folder), "NNEFC_JOBS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def locks(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix == ".lock"]


def test_the_second_process_waits_for_the_first(folder: Path):
    one = start(folder, 4)
    assert first_line(one) == "compiling"
    other = start(folder, 0, patience=100)
    assert other.communicate()[0].split() == ["1"]
    assert one.communicate()[0].split() == ["1"]
    assert locks(folder) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_hangs_stalls_nobody(folder: Path, end: int):
    one = start(folder, 1000)
    try:
        assert first_line(one) == "compiling"
        os.kill(one.pid, end)
        began = time.monotonic()
        other = start(folder, 0)
        assert other.communicate()[0].split() == ["compiling", "1"]
        assert time.monotonic() - began < 60  # the seconds of the first process are 1000
    finally:
        one.kill()
        one.communicate()


def test_every_claim_succeeds_where_files_cannot_be_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    import fcntl

    from nnefc.kernels.executor import executor

    def refuse(*given: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    symbol, body = executor.FUNCTIONS[0]
    assert object_code(Function(symbol, body))[:4] == b"\x7fELF"
