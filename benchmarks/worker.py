"""One engine, one network, one process.

The parent sends commands over a socket and the worker sleeps until the next one comes, so that
threads, allocators and signal handlers of engines cannot disturb each other and the memory that
each takes can be told.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.artifacts import ROOT


class EngineError(Exception):
    """What went wrong in a worker, in a line."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What loading took."""

    seconds: float
    note: str
    arena: int | None


class Worker:
    """The parent's side: a process, and calls that are answered or raise `EngineError`."""

    def __init__(self, engine: str, threads: int) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.server", engine, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = Connection(ours.detach())

    def call(self, command: str, *arguments: Any) -> Any:
        """Have a method of `benchmarks.server.Server` called."""
        try:
            self._connection.send((command, arguments))
            done, value = self._connection.recv()
        except (EOFError, OSError):
            status = self._process.wait()
            raise EngineError(f"the process ended with status {status}") from None
        if not done:
            raise EngineError(value)
        return value

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
