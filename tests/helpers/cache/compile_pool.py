"""Compilation units and observed workers, for tests of compiling in worker processes."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nnefc.kernels.codegen import object_code
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.executor.executor import FUNCTIONS
from nnefc.kernels.movement import strided
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile import zero_halo as halo
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.claim import Claim
from nnefc.runtime.compile import kernel_compiler, start_python, worker_pool
from nnefc.runtime.compile.compile_unit import CompileUnit, Function, key_of

SOURCES: list[CompileUnit] = [
    elementwise.copy(),
    halo.zero_halo(),
    Function(*FUNCTIONS[0]),
    strided.copy(itemsize=4),
]
"""Units that compile quickly."""
PATIENCE = 60
"""Seconds after which a test gives up."""


def emitted(source: CompileUnit) -> bytes:
    return object_code.emit(source.function(), source.symbol, host())


def name_of(source: CompileUnit) -> str:
    """The name of the cache entry of a unit; empty if it cannot be cached."""
    key = key_of(source, host())
    return key.name if key else ""


def watched_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start with no compiled kernels, and workers for any number; yields the started processes."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> Any:
        process: Any = subprocess.Popen(*arguments, **options)
        started.append(process)
        return process

    class Spy:
        PIPE, DEVNULL, Popen = subprocess.PIPE, subprocess.DEVNULL, staticmethod(start)

    monkeypatch.setattr(kernel_compiler, "_objects", {})
    monkeypatch.setattr(kernel_cache, "load_kernel", lambda name: None)  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "store_kernel", lambda name, code: None)  # pyright: ignore
    # Another process of the tests may be compiling the same units.
    monkeypatch.setattr(kernel_cache, "claim_kernel", lambda key: Claim("", None))  # pyright: ignore
    monkeypatch.setattr(start_python, "subprocess", Spy)
    monkeypatch.setattr(worker_pool, "_MIN_WORKER_SECONDS", 1e-9)
    monkeypatch.setenv("NNEFC_JOBS", "2")
    threads = threading.active_count()
    yield started
    assert all(process.returncode is not None for process in started)
    assert threading.active_count() == threads
