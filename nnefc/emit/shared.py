"""Link shared libraries with a linker of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from nnefc.kernels.target.isa import TABLE, host
from nnefc.support.errors import Diagnostic, warn

_COMPILERS: Final = ("cc", "gcc", "clang")
_LIBRARIES: Final = ("-lm", "-lpthread", "-lc")


def link_shared(folder: Path, name: str, isa: str) -> bool:
    """Link `NAME.o` in a folder to `libNAME.so`; False if no linker for the target is installed.

    If the linker fails, the warning `artifact/linker` is issued, and the result is False.
    """
    command = _linker(TABLE[isa].triple)
    if command is None:
        return False
    library = f"lib{name}.so"
    done = subprocess.run(
        [*command, "-shared", "-o", library, f"{name}.o", *_LIBRARIES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0 and (folder / library).exists():
        return True
    (folder / library).unlink(missing_ok=True)
    reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    warn(
        Diagnostic(
            "artifact/linker",
            f"no {library}: {command[0]} failed: {reason}",
            severity="warning",
            hint=f"{name}.o is complete; link it with your program",
        )
    )
    return False


def _linker(triple: str) -> list[str] | None:
    """The command that links for a target triple, if one is installed."""
    machine = triple.partition("-")[0]
    if triple == host().triple:
        for compiler in _COMPILERS:
            if shutil.which(compiler):
                return [compiler]
        if shutil.which("ld"):
            return ["ld"]
    cross = f"{machine}-linux-gnu-gcc"
    return [cross] if shutil.which(cross) else None
