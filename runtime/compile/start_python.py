"""Starts processes of this Python interpreter that run a module of nnefc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from nnefc.kernels.target.isa import environment_value

if TYPE_CHECKING:
    from typing import IO

    from nnefc.kernels.target.isa import Isa

_THREAD_COUNTS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that keep NumPy from starting threads at import."""
PROCESS_BYTES: Final = 250 << 20
"""Memory that a process needs to compile kernels."""


def is_available() -> bool:
    """Whether `sys.executable` is Python; a frozen program would start itself instead."""
    program = PurePath(sys.executable or "").name
    return not getattr(sys, "frozen", False) and program.startswith(("python", "pypy"))


def command(module: str) -> list[str]:
    """The command line that calls `main()` of `module` with the present `sys.path`."""
    options = ["-I"] if sys.flags.isolated else []
    code = f"import sys; sys.path[:] = sys.argv[1:]; from {module} import main; main()"
    return [sys.executable, *options, "-c", code, *map(str, sys.path)]


def start(module: str, isa: Isa, stdin: int | IO[bytes], stdout: int) -> subprocess.Popen[bytes]:
    """A process that calls `main()` of `module`, for kernels of `isa`.

    Its standard error is discarded.  Raises OSError or ValueError if it cannot be started.
    """
    one = dict.fromkeys(_THREAD_COUNTS, "1")
    return subprocess.Popen(
        command(module),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **one, "NNEFC_ISA": environment_value(isa)},
    )
