"""Compiles kernels in worker processes, because numba and LLVM use one processor per process.

Workers (`worker`) are started for the kernels of one call and end with it.  Failures of workers are
not errors: the caller compiles the kernels that no worker has compiled.  `multiprocessing` is not
used: it would run the user's main program again in each worker (spawn), or copy locks without the
threads that hold them (fork).
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from nnefc.runtime.compile import start_python
from nnefc.runtime.compile.compile_unit import CompileUnit, unit_label
from nnefc.runtime.compile.worker import pickled, read_message, write_message
from nnefc.runtime.machine.resources import compile_jobs, free_memory, usable_cpus

if TYPE_CHECKING:
    from typing import BinaryIO

    from nnefc.kernels.target.isa import Isa

_COMPILE_SECONDS: Final = {
    "convolution.winograd.blocks": 0.9,
    "product.attention.rows": 0.7,
    "convolution.direct.convolution": 0.5,
    "product.matmul.gemm": 0.4,
    "reduce.local_response.windowed": 0.4,
}
"""Seconds to compile a kernel, by family, on a processor of 2023."""
_DEFAULT_SECONDS: Final = 0.2
_MIN_WORKER_SECONDS: Final = 1.0
"""Seconds of work that pay for a worker, which takes 0.4 seconds of processor time to start."""
_EARLY_WORKERS: Final = 2
"""Workers that are started before the number of units is known."""
_TIMEOUT_SECONDS: Final = 60.0
"""Seconds without any answer after which the workers are taken to hang."""
_MAIN: Final = "nnefc.runtime.compile.worker"

_pool_lock = threading.Lock()
"""Held by the one thread that has workers; they use all processors."""
_early: ContextVar[_Pool | None] = ContextVar("early", default=None)
"""The pool of `workers_started_early`."""


def _renew_lock() -> None:
    global _pool_lock
    _pool_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def workers_for(sources: Iterable[CompileUnit]) -> int:
    """The number of workers that pay for compiling `sources`; 0: compile in this process.

    Limited by `NNEFC_JOBS` if set, otherwise by processors and free memory.
    Raises NnefError `input/environment` if `NNEFC_JOBS` is not a positive number.
    """
    seconds = [estimated_seconds(source) for source in sources]
    count = min(len(seconds), int(sum(seconds) / _MIN_WORKER_SECONDS), _max_workers())
    if early := _early_pool():
        return max(count, early.workers)
    return count if count > 1 and start_python.is_available() else 0


def _early_pool() -> _Pool | None:
    """The pool that this thread started early and has not used yet."""
    pool = _early.get()
    return None if pool is None or pool.is_stopped else pool


def estimated_seconds(source: CompileUnit) -> float:
    """Seconds to compile a unit on a processor that is otherwise idle."""
    return _COMPILE_SECONDS.get(unit_label(source), _DEFAULT_SECONDS)


def _max_workers() -> int:
    if (jobs := compile_jobs()) is not None:
        return jobs
    memory = free_memory()
    return (
        usable_cpus()
        if memory is None
        else min(usable_cpus(), memory // start_python.PROCESS_BYTES)
    )


def compile_in_workers(
    names: Mapping[CompileUnit, str],
    count: int,
    isa: Isa,
    *,
    begin: Callable[[CompileUnit], None],
    finish: Callable[[CompileUnit, bytes], None],
) -> None:
    """Compile in `count` processes; returns when all are compiled or no worker is left.

    `names` maps units to the names of their cache entries.  The most expensive units are compiled
    first.  The calling thread calls `begin(source)` for the oldest unit under way and
    `finish(source, code)` for each compiled unit.
    """
    early = _early_pool()
    if early is None and not _pool_lock.acquire(blocking=False):
        return
    pool = early or _Pool(isa)
    try:
        pool.start_workers(count)
        pool.compile(names, begin, finish)
    finally:
        pool.stop()


@contextmanager
def workers_started_early(isa: Isa, units: Iterable[CompileUnit]) -> Generator[None]:
    """Start two workers, which compile `units` while the block finds out which others it needs.

    The first `compile_in_workers` of the block uses them.
    """
    count = min(_EARLY_WORKERS, _max_workers())
    if count < 2 or not start_python.is_available() or not _pool_lock.acquire(blocking=False):
        yield
        return
    pool = _Pool(isa)
    token = _early.set(pool)
    try:
        pool.start_workers(count)
        pool.submit(units)
        yield
    finally:
        _early.reset(token)
        pool.stop()


def end_early_workers() -> None:
    """Stop the workers of `workers_started_early`, whose units exist now."""
    if pool := _early_pool():
        pool.stop()


class _Pool:
    """Worker processes that take units from one queue; its thread holds `_pool_lock`."""

    def __init__(self, isa: Isa) -> None:
        self._isa = isa
        self._workers: list[_Worker] = []
        self._running = 0
        self._requests = SimpleQueue[_Request | None]()
        self._answers = SimpleQueue[_Answer | None]()
        self._submitted: dict[CompileUnit, None] = {}
        self.is_stopped = False

    @property
    def workers(self) -> int:
        """The number of processes that were started."""
        return len(self._workers)

    def start_workers(self, count: int) -> None:
        """Start processes until there are `count`, or until the system starts no more."""
        with suppress(OSError, ValueError, RuntimeError):
            while len(self._workers) < count:
                worker = _Worker(self._isa)
                self._workers.append(worker)
                worker.start(self._requests, self._answers)
                self._running += 1

    def submit(self, units: Iterable[CompileUnit]) -> None:
        """Append units to the queue, except those that are in it and those that have no pickle."""
        for unit in units:
            if unit not in self._submitted and (data := pickled(unit)):
                self._submitted[unit] = None
                self._requests.put(_Request(unit, data))

    def compile(
        self,
        names: Mapping[CompileUnit, str],
        begin: Callable[[CompileUnit], None],
        finish: Callable[[CompileUnit, bytes], None],
    ) -> None:
        """See `compile_in_workers`; the workers end with the last unit."""
        self.submit(sorted(names, key=estimated_seconds, reverse=True))
        self._end_requests()
        pending = {unit: None for unit in self._submitted if unit in names}
        while self._running and pending:
            begin(next(iter(pending)))
            try:
                answer = self._answers.get(timeout=_TIMEOUT_SECONDS)
            except Empty:
                return
            if answer is None:
                self._running -= 1
            elif answer.source in pending and answer.is_code_of(names[answer.source]):
                del pending[answer.source]
                finish(answer.source, answer.code)

    def stop(self) -> None:
        """Kill the processes, wait for them, and let other threads have workers."""
        if self.is_stopped:
            return
        self.is_stopped = True
        try:
            for worker in self._workers:
                worker.kill()
            self._end_requests()
            for worker in self._workers:
                worker.wait()
        finally:
            _pool_lock.release()

    def _end_requests(self) -> None:
        for _ in self._workers:
            self._requests.put(None)


class _Request(NamedTuple):
    source: CompileUnit
    pickled: bytes


class _Answer(NamedTuple):
    source: CompileUnit
    name: bytes
    code: bytes

    def is_code_of(self, name: str) -> bool:
        """Whether the worker compiled the unit, from the sources that this process has."""
        return bool(self.code) and self.name == name.encode()


class _Worker:
    """A worker process, and a thread that sends requests and receives answers."""

    def __init__(self, isa: Isa) -> None:
        """Raises OSError or ValueError if the process cannot be started."""
        self._process = start_python.start(_MAIN, isa, subprocess.PIPE, subprocess.PIPE)
        self._thread: threading.Thread | None = None

    def start(
        self, requests: SimpleQueue[_Request | None], answers: SimpleQueue[_Answer | None]
    ) -> None:
        """Take units from `requests` until None, and put `answers`, then None, in a thread.

        Raises RuntimeError if the thread cannot be started.
        """
        # assigned before `start`, which an interrupt may end
        self._thread = threading.Thread(target=self._serve, args=(requests, answers), daemon=True)
        self._thread.start()

    def _serve(
        self, requests: SimpleQueue[_Request | None], answers: SimpleQueue[_Answer | None]
    ) -> None:
        stdin = cast("BinaryIO", self._process.stdin)
        stdout = cast("BinaryIO", self._process.stdout)
        try:
            while request := requests.get():
                write_message(stdin, request.pickled)
                name, code = read_message(stdout), read_message(stdout)
                if name is None or code is None:
                    break
                answers.put(_Answer(request.source, name, code))
        # dead worker; files closed while the thread began
        except (OSError, ValueError):
            pass
        finally:
            answers.put(None)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> None:
        """Wait for the process and the thread, and close the pipes."""
        self._process.wait()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # flushing unsent data may fail
                cast("BinaryIO", stream).close()
