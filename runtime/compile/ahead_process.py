"""A process of the lowest priority that compiles kernels for the cache: see `ahead`.

It reads one `Request` from standard input, and ends with the process that started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nnefc.kernels.template import Kernel
    from nnefc.runtime.compile.ahead import Request

_WATCH_SECONDS: Final = 0.2
"""Interval at which the process looks whether its parent lives."""


def main() -> None:
    """Compile the kernels of a request that are not in the cache."""
    # Ctrl-C goes to all processes of a terminal; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lower_priority()
    request: Request = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(request.parent,), daemon=True).start()
    compile_missing(request)


def compile_missing(request: Request) -> None:
    """Compile kernels that the cache lacks, and store them."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.compile.kernel_compiler import object_code_for

    for kernel in dict.fromkeys(_kernels(request)):
        with suppress(Exception):  # no model needs the kernel now
            object_code_for(kernel, host())


def _kernels(request: Request) -> Iterator[Kernel]:
    """Relatives of the compiled kernels, then the expected ones; until the first error."""
    with suppress(Exception):
        for kernel in request.compiled:
            yield from kernel.relatives()
        yield from request.expected()


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
