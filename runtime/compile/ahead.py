"""Compiles kernels that other models are likely to need, after the call that needs none of them.

After a block of `compiling_ahead` that compiled kernels, one process of the lowest priority
(`ahead_process`) compiles their relatives and the expected kernels, for the cache.  It ends with
this process at the latest.  Programs that do not live on, such as commands, switch it off
(`switch_off`), and users do with `NNEFC_AHEAD=off`.
"""

from __future__ import annotations

import atexit
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from nnefc.kernels.target.isa import NATIVE
from nnefc.kernels.template import Kernel
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile import interpreter
from nnefc.runtime.compile.kernel_compiler import recording_compiled_kernels
from nnefc.runtime.machine.resources import compiles_ahead, free_memory

if TYPE_CHECKING:
    import subprocess

ExpectedKernels = Callable[[], Iterable[Kernel]]
"""Returns kernels that other models are likely to need; a function that can be pickled."""


class Request(NamedTuple):
    """What an `ahead_process` reads from its standard input, pickled."""

    parent: int
    """The process to end with."""
    compiled: list[Kernel]
    """Kernels whose relatives to compile."""
    expected: ExpectedKernels


class _State:
    """The process that compiles ahead for this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.compiled: list[Kernel] = []
        self.is_off = False


_state = _State()


def _forget_process() -> None:
    """A forked process has no such child."""
    _state.lock, _state.process, _state.compiled = threading.Lock(), None, []


os.register_at_fork(after_in_child=_forget_process)


@contextmanager
def compiling_ahead(expected: ExpectedKernels) -> Generator[None]:
    """After this block, compile kernels ahead if the block compiled several.

    Only if a cache exists.  Errors of `expected` are ignored.
    """
    with recording_compiled_kernels() as compiled:
        yield
    if len(compiled) > 1:
        _start(compiled, expected)


def switch_off() -> None:
    """Compile nothing ahead in this process from now on."""
    _state.is_off = True
    stop()


def stop() -> None:
    """End the process that compiles ahead, if there is one."""
    with _state.lock:
        _end(_state.process)
        _state.process = None


atexit.register(stop)


def _start(compiled: list[Kernel], expected: ExpectedKernels) -> None:
    """Start a process in place of a former one, which may not have compiled everything yet."""
    if _state.is_off or not compiles_ahead() or not _is_possible():
        return
    import subprocess

    from nnefc.kernels.target.isa import host

    with _state.lock, suppress(OSError, ValueError, pickle.PicklingError):
        if _state.process is not None and _state.process.poll() is None:
            compiled = [*_state.compiled, *compiled]
        _end(_state.process)
        _state.process, _state.compiled = None, compiled
        with tempfile.TemporaryFile() as request:
            pickle.dump(Request(os.getpid(), compiled, expected), request)
            request.seek(0)
            _state.process = interpreter.start(
                "nnefc.runtime.compile.ahead_process", host(), request, subprocess.DEVNULL
            )


def _is_possible() -> bool:
    from nnefc.kernels.target.isa import host

    memory = free_memory()
    return (
        host().cpu == NATIVE
        and kernel_cache.is_writable()
        and interpreter.is_available()
        and (memory is None or memory >= 2 * interpreter.PROCESS_BYTES)
    )


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
