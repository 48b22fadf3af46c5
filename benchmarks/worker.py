"""A process for each engine and network.

The parent sends commands over a socket, and the worker sleeps between them.  So threads, allocators
and signal handlers of engines do not disturb each other, and the memory of each can be measured.
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
    """A command of a worker failed; the message is one line."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Seconds to load a network, the mode of the engine, and the bytes of its arena."""

    seconds: float
    note: str
    arena: int | None


class Worker:
    """A worker process, seen from its parent."""

    def __init__(self, engine: str, threads: int) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker_process", engine, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = Connection(ours.detach())

    def call(self, command: str, *arguments: Any) -> Any:
        """Call a method of `benchmarks.worker_process.Server`; raises `EngineError` if it fails."""
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
