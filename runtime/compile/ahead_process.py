"""A process of the lowest priority that compiles kernels for the cache: see `compile_ahead`.

It reads messages from standard input: the number of the process that started it and with which it
ends, then pickled functions that return kernels.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from nnefc.runtime.compile.worker import read_message

if TYPE_CHECKING:
    from nnefc.kernels.family import Kernel

_WATCH_SECONDS: Final = 0.2
"""Interval at which the process looks whether its parent lives."""


def main() -> None:
    """Compile the kernels of all functions that are not in the cache."""
    # Ctrl-C goes to all processes of a terminal; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lower_priority()
    if parent := read_message(sys.stdin.buffer):
        threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
        compile_missing(iter(lambda: read_message(sys.stdin.buffer), None))


def compile_missing(functions: Iterable[bytes]) -> None:
    """Compile kernels that the cache lacks, and store them."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache import kernel_cache
    from nnefc.runtime.compile.compile_unit import key_of
    from nnefc.runtime.compile.kernel_compiler import object_code_for

    seen: set[Kernel] = set()
    for kernel in _kernels(functions):
        if not kernel_cache.is_writable():
            break
        with suppress(Exception):  # no model needs the kernel now
            if kernel not in seen and key_of(kernel, host()):
                seen.add(kernel)
                object_code_for(kernel, host())


def _kernels(functions: Iterable[bytes]) -> Iterator[Kernel]:
    """The kernels of each function until its first error."""
    for function in functions:
        with suppress(Exception):
            yield from pickle.loads(function)()


def _lower_priority() -> None:
    """Run only when a processor has nothing else to do, where the system has such a policy."""
    with suppress(OSError):
        os.nice(19)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(0)
