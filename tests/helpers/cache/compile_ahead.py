"""An empty cache in memory, and processes that compile ahead but are never started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.movement import layout, strided
from nnefc.kernels.reduce import softmax
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile import compile_ahead, kernel_compiler, start_python
from nnefc.runtime.compile.worker import read_message
from tests.helpers.cache.compile_pool import PATIENCE

RELATIVES = [layout.unblock("float32", lanes=8), softmax.rows("float32")]
EXPECTED = [strided.strided(4), strided.transpose(4)]


def cached_in_memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory; no kernel is compiled, and `copy` has relatives."""
    entries: dict[str, bytes] = {}

    def store(key: Any, code: bytes) -> None:
        entries[key.name] = code

    relatives = [*RELATIVES, Kernel(strided.copy.name, ("no size",))]
    monkeypatch.setattr(strided.copy, "relatives", lambda itemsize: relatives)  # pyright: ignore
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    monkeypatch.setattr(kernel_cache, "is_writable", lambda: True)  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "load_kernel", lambda key: entries.get(key.name))  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "store_kernel", store)  # pyright: ignore
    return entries


class Process:
    """A process that runs until it is killed or told to end."""

    def __init__(self, request: list[bytes]) -> None:
        self.request = request
        self.killed = False
        self.end = threading.Event()

    def kill(self) -> None:
        self.killed = True
        self.end.set()

    def wait(self) -> None:
        self.end.wait(PATIENCE)


def watched_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """The processes that would be started, one at a time; no process is."""
    started: list[Process] = []

    def start(module: str, isa: Any, stdin: Any, stdout: int) -> Process:
        assert module == "nnefc.runtime.compile.ahead_process"
        process = Process(list(iter(lambda: read_message(stdin), None)))
        started.append(process)
        return process

    background = compile_ahead._Background()  # pyright: ignore
    monkeypatch.setattr(compile_ahead, "_background", background)
    monkeypatch.setattr(compile_ahead, "cpu_quotas", lambda: iter(()))
    monkeypatch.setattr(start_python, "start", start)
    monkeypatch.setenv("NNEFC_AHEAD", "on")
    yield started
    background.close()
    join()
    assert all(process.end.is_set() for process in started)


def join() -> None:
    """Wait for the thread that starts processes and waits for them."""
    if thread := compile_ahead._background._thread:  # pyright: ignore
        thread.join(PATIENCE)
        assert not thread.is_alive()


def one_started(processes: list[Process]) -> list[bytes]:
    """The request to the only process, which ends."""
    wait_until(lambda: bool(processes))
    (process,) = processes
    process.end.set()
    join()
    assert len(processes) == 1
    return process.request[1:]


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def expected_kernels() -> list[Kernel]:
    return EXPECTED


def _nothing(bases: int, params: int, first: int, last: int) -> None:
    pass


@family()
def elsewhere(number: int) -> KernelFunction:
    """Kernels that cannot be cached, because their family is not part of nnefc."""
    return _nothing
