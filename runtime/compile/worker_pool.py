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
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
_TIMEOUT_SECONDS: Final = 60.0
"""Seconds without any answer after which the workers are taken to hang."""
_MAIN: Final = "nnefc.runtime.compile.worker"

_pool_lock = threading.Lock()
"""Held by the one thread that has workers; they use all processors."""


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
    return count if count > 1 and start_python.is_available() else 0


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
    if not _pool_lock.acquire(blocking=False):
        return
    workers: list[_Worker] = []
    try:
        with suppress(OSError, ValueError):  # the system starts no more processes
            for _ in range(count):
                workers.append(_Worker(isa))
        order = sorted(names, key=estimated_seconds, reverse=True) if workers else []
        pending = {source: data for source in order if (data := pickled(source))}
        waiting, answers = deque(pending.items()), SimpleQueue[_Answer | None]()
        running = 0
        with suppress(RuntimeError):  # the system starts no more threads
            for worker in workers:
                worker.start(waiting, answers)
                running += 1
        while running and pending:
            begin(next(iter(pending)))
            answer = answers.get(timeout=_TIMEOUT_SECONDS)
            if answer is None:
                running -= 1
                continue
            source, name, code = answer
            if code and name == names[source].encode():
                del pending[source]
                finish(source, code)
    except Empty:
        pass
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
        _pool_lock.release()


class _Answer(NamedTuple):
    source: CompileUnit
    name: bytes
    code: bytes


class _Worker:
    """A worker process, and a thread that sends requests and receives answers."""

    def __init__(self, isa: Isa) -> None:
        """Raises OSError or ValueError if the process cannot be started."""
        self._process = start_python.start(_MAIN, isa, subprocess.PIPE, subprocess.PIPE)
        self._thread: threading.Thread | None = None

    def start(
        self, waiting: deque[tuple[CompileUnit, bytes]], answers: SimpleQueue[_Answer | None]
    ) -> None:
        """Take units from `waiting` and put `answers`, then None at the end, in a thread.

        Raises RuntimeError if the thread cannot be started.
        """
        # assigned before `start`, which an interrupt may end
        self._thread = threading.Thread(target=self._serve, args=(waiting, answers), daemon=True)
        self._thread.start()

    def _serve(
        self, waiting: deque[tuple[CompileUnit, bytes]], answers: SimpleQueue[_Answer | None]
    ) -> None:
        requests = cast("BinaryIO", self._process.stdin)
        results = cast("BinaryIO", self._process.stdout)
        try:
            while waiting:
                source, data = waiting.popleft()
                write_message(requests, data)
                name, code = read_message(results), read_message(results)
                if name is None or code is None:
                    break
                answers.put(_Answer(source, name, code))
        # dead worker; files closed while the thread began; no unit left
        except (OSError, ValueError, IndexError):
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
