"""Try hostile inputs in processes of their own.

Whatever an input is, it is accepted or refused with an NnefError: no other exception, no
crash, at most 2 s of CPU time, at most 1 GB of memory.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import signal
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import FrameType
from typing import NamedTuple

from nnefc.support.errors import NnefError, NnefWarning
from tests.fuzz.inputs import KINDS, make

SECONDS = 2.0
BYTES = 1_000_000_000
CHUNK = 100


class Finding(NamedTuple):
    kind: str
    number: int
    what: str


class Slow(BaseException):
    """Raised after too much CPU time; a BaseException, so that no handler catches it."""


def _alarm(signum: int, frame: FrameType | None) -> None:
    raise Slow


def _memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def try_one(kind: str, content: bytes) -> str:
    """The failure on an input, or ""."""
    before = _memory()
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NnefWarning)
            KINDS[kind][1](content)
    except NnefError as error:
        if any(d.rule.startswith("internal") for d in error.errors):
            return f"internal error: {error}"
    except Slow:
        return f"more than {SECONDS} s\n{traceback.format_exc()}"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    used = _memory()
    if used - before > BYTES // 4 and used > BYTES:
        return f"{used / 1e6:.0f} MB of memory"
    return ""


def _chunk(kind: str, seed: int, start: int, stop: int) -> list[Finding]:
    faulthandler.enable()
    limit = 3 * BYTES  # address space, most of it libraries: what asks for more gets MemoryError
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    found: list[Finding] = []
    for number in range(start, stop):
        what = try_one(kind, make(kind, seed, number))
        if what:
            found.append(Finding(kind, number, what))
    return found


def fuzz(count: int, seed: int, jobs: int, kinds: list[str]) -> list[Finding]:
    """Try `count` inputs, equally many of each kind."""
    each = -(-count // len(kinds))
    pieces = [
        (kind, start, min(start + CHUNK, each)) for start in range(0, each, CHUNK) for kind in kinds
    ]
    found: list[Finding] = []
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    position = 0
    while position < len(pieces):
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            tasks = [pool.submit(_chunk, k, seed, a, b) for k, a, b in pieces[position:]]
            for (kind, start, _), task in zip(pieces[position:], tasks, strict=True):
                position += 1
                try:
                    found += task.result()
                except BrokenProcessPool:
                    found.append(Finding(kind, start, f"a process died in inputs from {start} on"))
                    break
                if position % 20 == 0 and sys.stderr.isatty():
                    rate = position * CHUNK / (time.monotonic() - began)
                    print(
                        f"\r{position * CHUNK:,} inputs, {rate:.0f}/s, {len(found)} findings",
                        end="",
                        file=sys.stderr,
                    )
    return found
