"""Compiles kernels in the background that the next models are likely to need.

After a block of `compiling_ahead` that compiled several kernels, one process of the lowest priority
(`ahead_process`) compiles their relatives and the expected kernels, for the cache.  It ends with
this process at the latest.  `NNEFC_AHEAD=off` and `switch_off` prevent it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Final

from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import NATIVE, host
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile import start_python
from nnefc.runtime.compile.kernel_compiler import recording_cacheable_kernels
from nnefc.runtime.compile.worker import pickled, write_message
from nnefc.runtime.machine.resources import compiles_ahead, cpu_quotas, free_memory

ExpectedKernels = Callable[[], Iterable[Kernel]]
"""Returns kernels that other models are likely to need; a function that can be pickled."""

_MAIN: Final = "nnefc.runtime.compile.ahead_process"


@contextmanager
def compiling_ahead(expected: ExpectedKernels) -> Generator[None]:
    """After this block, compile kernels ahead if the block compiled several that can be cached.

    Nothing that happens after the block raises an exception, errors of `expected` included.
    Raises NnefError `input/environment` before the block if `NNEFC_AHEAD` is neither on nor off.
    """
    if not compiles_ahead() or _background.is_closed:
        yield
        return
    with recording_cacheable_kernels() as compiled:
        yield
    with suppress(Exception):  # the user's call has succeeded
        if len(compiled) > 1:
            _background.add([*(kernel.relatives for kernel in compiled), expected])


def switch_off() -> None:
    """Compile nothing ahead in this process from now on."""
    _background.close()


class _Background:
    """A daemon thread that runs one process after another until no request is left.

    Requests that arrive while a process runs wait for its end, and then share the next process.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self.forget()

    def forget(self) -> None:
        """Drop requests, thread and process: a forked process has none of its parent's."""
        self._lock = threading.Lock()
        self._waiting: list[ExpectedKernels] = []
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, request: Iterable[ExpectedKernels]) -> None:
        """Compile the kernels of a request; raises RuntimeError if no thread can be started."""
        with self._lock:
            if self.is_closed:
                return
            self._waiting += request
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Kill the process and accept no more requests.

        Does not wait for the end of the process: where processors are busy, one of the lowest
        priority may not even get the time to die.
        """
        with self._lock:
            self.is_closed = True
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        while requests := self._take():
            with suppress(Exception):  # nobody waits for these kernels
                if _is_possible():
                    self._compile(requests)

    def _take(self) -> list[ExpectedKernels]:
        """All waiting requests; if there is none, this thread is about to end."""
        with self._lock:
            requests, self._waiting = self._waiting, []
            if not requests:
                self._thread = None
            return requests

    def _compile(self, requests: Iterable[ExpectedKernels]) -> None:
        """Run a process for these requests until it ends."""
        messages = dict.fromkeys(data for each in requests if (data := pickled(each)))
        # Unbuffered: if the program forks now, its copy must not write a copy of the buffer.
        with tempfile.TemporaryFile(buffering=0) as file:
            for message in (b"%d" % os.getpid(), *messages):
                write_message(file, message)
            file.seek(0)
            process = start_python.start(_MAIN, host(), file, subprocess.DEVNULL)
        with self._lock:
            self._process = process
            if self.is_closed:
                process.kill()
        process.wait()
        with self._lock:
            self._process = None


def _is_possible() -> bool:
    memory = free_memory()
    return (
        host().cpu == NATIVE
        and kernel_cache.is_writable()
        and start_python.is_available()
        and not any(cpu_quotas())  # the lowest priority uses up a quota, too
        and (memory is None or memory >= 2 * start_python.PROCESS_BYTES)
    )


_background = _Background()
atexit.register(_background.close)
os.register_at_fork(after_in_child=_background.forget)
