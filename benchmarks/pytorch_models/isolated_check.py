"""Checks models in processes of their own, with limits of time and memory.

The processes are forks of one that has imported the packages, which takes as long as a small model.
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.pytorch_models.checked import Checked, Status

_PRELOADED: Final = (
    *("torchvision", "timm", "transformers", "benchmarks.pytorch_models.check_model"),
    *("nnefc.driver.compile", "nnefc.dynamic.dynamic_model", "nnefc.frontends.torch.source"),
)
"""The modules that are imported once, where they are installed."""


def isolated_check(suite: str, name: str, seconds: float, gigabytes: float) -> Checked:
    """`check_model.check` in another process, which is killed after `seconds`.

    `gigabytes`: the limit of its private memory.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, suite, name, int(gigabytes * 1e9)))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            return Checked(name, Status.ENDED, f"more than {seconds:g} s")
        return ours.recv()
    except EOFError:
        process.join(10)
        return Checked(name, Status.ENDED, f"the process ended with status {process.exitcode}")
    finally:
        _end(process.pid)
        process.join()


def _run(connection: Connection, suite: str, name: str, limit: int) -> None:
    """Send the result of a model, in a group of processes of its own."""
    from benchmarks.pytorch_models.check_model import check

    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    connection.send(check(suite, name))


def _end(pid: int | None) -> None:
    """Kill a process and its children."""
    assert pid is not None
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
