"""Compiling in other processes: numba and LLVM use one processor of a process.

Workers (`compile_worker`) are started for the kernels of one call and end with it.  Nothing here is
an error: what no worker has compiled, the caller compiles.  Processes are started by ourselves and
not by `multiprocessing`, which would run the program of the user anew in each of them, or copy
this process with all its locks but without the threads that hold them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import PurePath
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from nnefc.kernels.target.isa import setting
from nnefc.runtime.compile.unit import CompileUnit, unit_label
from nnefc.runtime.compile.worker import read_message, write_message
from nnefc.runtime.machine.resources import compile_jobs, free_memory, usable_cpus

if TYPE_CHECKING:
    from typing import BinaryIO

    from nnefc.kernels.target.isa import Isa

_SECONDS: Final = {
    "convolution.winograd.blocks": 0.9,
    "product.attention.rows": 0.7,
    "convolution.direct.convolution": 0.5,
    "product.matmul.gemm": 0.4,
    "reduce.local_response.windowed": 0.4,
}
"""What kernels of these families take to compile, on a processor of 2023."""
_OTHERS: Final = 0.2
_SHARE: Final = 1.0
"""Seconds of work that a worker must have: it takes 0.4 to start, also of a processor's time."""
_WORKER_BYTES: Final = 250 << 20
"""Memory of a worker."""
_PATIENCE: Final = 60.0
"""Seconds without any answer after which workers are taken to hang."""
_THREAD_COUNTS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that keep NumPy from starting threads when it is loaded."""
_START: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from nnefc.runtime.compile.worker import main; main()"
)

_turn = threading.Lock()
"""Of threads that compile at the same time one has workers, as many as there are processors."""


def _renew_lock() -> None:
    global _turn
    _turn = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def workers_for(sources: Iterable[CompileUnit]) -> int:
    """How many workers pay for what is to be compiled; 0: the caller does it alone.

    At most as many as `NNEFC_JOBS` says, otherwise as there are processors and memory.
    Raises NnefError `input/environment` if that is not a positive number.
    """
    seconds = [_seconds(source) for source in sources]
    count = min(len(seconds), int(sum(seconds) / _SHARE), _most_workers())
    return count if count > 1 and _can_start() else 0


def _seconds(source: CompileUnit) -> float:
    return _SECONDS.get(unit_label(source), _OTHERS)


def _most_workers() -> int:
    if (wanted := compile_jobs()) is not None:
        return wanted
    memory = free_memory()
    return usable_cpus() if memory is None else min(usable_cpus(), memory // _WORKER_BYTES)


def _can_start() -> bool:
    """Whether this process is an interpreter: programs that contain one would start themselves."""
    program = PurePath(sys.executable or "").name
    return not getattr(sys, "frozen", False) and program.startswith(("python", "pypy"))


def compile_apart(
    groups: Iterable[Mapping[CompileUnit, str]],
    count: int,
    isa: Isa,
    *,
    begin: Callable[[CompileUnit], None],
    keep: Callable[[CompileUnit, bytes], None],
) -> None:
    """Compile in `count` processes; returns when nothing more is to be had.

    One group comes after the other, of each the largest first, with what they are called on disk.
    The groups are asked for while the processes start, which takes them a second.  Both functions
    are called by the calling thread: `begin(source)` when that is the first of those under way,
    `keep(source, code)` with what has been compiled.
    """
    if not _turn.acquire(blocking=False):
        return
    workers: list[_Worker] = []
    try:
        with suppress(OSError, ValueError):  # the system gives no more of them
            for _ in range(count):
                workers.append(_Worker(isa))
        names: dict[CompileUnit, str] = {}
        for group in groups if workers else ():
            names.update(
                (source, group[source]) for source in sorted(group, key=_seconds, reverse=True)
            )
        left = {source: data for source in names if (data := _pickled(source))}
        waiting, answers = deque(left.items()), SimpleQueue[_Answer | None]()
        running = 0
        with suppress(RuntimeError):  # nor threads
            for worker in workers:
                worker.start(waiting, answers)
                running += 1
        while running and left:
            begin(next(iter(left)))
            answer = answers.get(timeout=_PATIENCE)
            if answer is None:
                running -= 1
                continue
            source, name, code = answer
            if code and name == names[source].encode():
                del left[source]
                keep(source, code)
    except Empty:
        pass
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
        _turn.release()


class _Answer(NamedTuple):
    source: CompileUnit
    name: bytes
    code: bytes


def _pickled(source: CompileUnit) -> bytes:
    """Empty if it cannot be had by another process."""
    try:
        return pickle.dumps(source)
    except Exception:  # whatever the arguments of a family raise
        return b""


def _command() -> list[str]:
    """Modules are looked for where this process does, which the program may have changed."""
    options = ["-I"] if sys.flags.isolated else []
    return [sys.executable, *options, "-c", _START, *map(str, sys.path)]


class _Worker:
    """A process, and a thread that waits for its answers."""

    def __init__(self, isa: Isa) -> None:
        """Raises OSError or ValueError if the process cannot be started."""
        one = dict.fromkeys(_THREAD_COUNTS, "1")
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **one, "NNEFC_ISA": setting(isa)},
        )
        self._thread: threading.Thread | None = None

    def start(
        self, waiting: deque[tuple[CompileUnit, bytes]], answers: SimpleQueue[_Answer | None]
    ) -> None:
        """Begin to take from `waiting` and to give `answers`, None at the end of the process.

        Raises RuntimeError if there can be no more threads.
        """
        # known before it runs: an interrupt may come while `start` waits for that
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
        # it is dead; files were closed while the thread began; another one took the last source
        except (OSError, ValueError, IndexError):
            pass
        finally:
            answers.put(None)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> None:
        """Leave nothing of it: no zombie, no thread, no open file."""
        self._process.wait()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # of what was not written
                cast("BinaryIO", stream).close()
