"""A team of native threads that run plans together.

Workers are pthreads that never touch Python: no thread state, no GIL, no entry in
`threading.enumerate()`, nothing for the interpreter to join at exit.  Idle workers sleep.  On
systems other than Linux, plans run on the calling thread.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import time
import weakref
from _thread import allocate_lock as Lock  # without `threading`: loading takes 1 ms less
from collections.abc import Callable
from functools import cached_property
from typing import Any

from nnefc.kernels.executor import team_state as state
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.machine.resources import usable_cpus

SYSTEM_CALLS = {"x86_64": (202, 203, 204, 186, 24), "aarch64": (98, 122, 123, 178, 124)}
"""Numbers of futex, sched_setaffinity, sched_getaffinity, gettid and sched_yield."""
SPINS = 2000
"""Polls before a thread sleeps: about 30 us, longer than the gap between two launches."""
_teams: weakref.WeakSet[Team]


def supports_threads() -> bool:
    """Whether plans can run on several threads on this system."""
    return sys.platform == "linux" and platform.machine() in SYSTEM_CALLS


class Team:
    """`threads` threads including the caller.  The first parallel run starts the workers."""

    def __init__(self, threads: int, spins: int = SPINS) -> None:
        """`spins`: how often a thread polls for work before it sleeps."""
        self.threads = min(threads, state.MAX_WORKERS + 1) if supports_threads() else 1
        self._spins = spins
        self._renew()
        _teams.add(self)

    # Lazy, because the executor is compiled together with the kernels of the first plan.

    @cached_property
    def _executor(self) -> ExecutableImage:
        """Referenced here, so that it outlives its module for daemon threads in a call at exit."""
        return support_code.support_image("executor")

    @cached_property
    def run_alone_address(self) -> int:
        """The address of `nnefc_run_alone`."""
        return self._executor.entry("nnefc_run_alone")

    @cached_property
    def run_alone(self) -> Callable[[int, int, int], None]:
        """`run_alone(launches, count, bases)`: run a plan on the calling thread."""
        return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(self.run_alone_address)

    @cached_property
    def run_together_address(self) -> int:
        """The address of `nnefc_run_together`."""
        return self._executor.entry("nnefc_run_together")

    @cached_property
    def _together(self) -> Callable[[int, int, int, int], None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(self.run_together_address)

    def _renew(self) -> None:
        """Set up an empty state block without workers: at the start, and in the child of a fork."""
        self._lock = Lock()
        self._workers: list[ctypes.c_size_t] = []
        self._memory = (ctypes.c_int64 * (state.STATE_BYTES // 8 + 16))()
        self._state = -(-ctypes.addressof(self._memory) // 128) * 128

    def _put(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(self._state + offset).value = value

    def _get(self, offset: int) -> int:
        return ctypes.c_int64.from_address(self._state + offset).value

    def _start(self) -> None:
        """Start the workers, or fewer if the system refuses to create more threads."""
        libc = ctypes.CDLL(None)
        self._put(state.SPINS, self._spins)
        self._put(state.SYSCALL, _function_address(libc.syscall))
        self._put(state.GETCPU, _function_address(libc.sched_getcpu))
        offsets = state.FUTEX, state.SETAFFINITY, state.GETAFFINITY, state.GETTID, state.YIELD
        for offset, number in zip(offsets, SYSTEM_CALLS[platform.machine()]):
            self._put(offset, number)
        for _ in range(self.threads - 1):
            handle = ctypes.c_size_t()
            failed = libc.pthread_create(
                ctypes.byref(handle),
                None,
                ctypes.c_void_p(self._executor.entry("nnefc_work")),
                ctypes.c_void_p(self._state),
            )
            if failed:
                self.threads = len(self._workers) + 1
                break
            self._workers.append(handle)
            while self._get(state.WORKERS) < len(self._workers):  # the worker takes its slot itself
                time.sleep(0)

    def run(self, launches: int, count: int, bases: int, parallel: bool = True) -> None:
        """Run a plan of `count` launches; `launches` and `bases` are addresses.

        Runs on the calling thread alone if `parallel` is false, or if the team is busy with the
        plan of another caller.
        """
        if not parallel or self.threads == 1 or not self._lock.acquire(blocking=False):
            self.run_alone(launches, count, bases)
            return
        try:
            if not self._workers:
                self._start()
            if self._workers and count:
                self._together(self._state, launches, count, bases)
            else:
                self.run_alone(launches, count, bases)
        finally:
            self._lock.release()

    def calls(self, native: Callable[..., Any], word: ctypes.c_int64) -> Callable[..., Any]:
        """A function that calls `native`, which runs a plan together; `word`: its team.

        It returns `NotImplemented` without workers, or if the team is busy.
        """

        def call(*arrays: Any) -> Any:
            lock = self._lock
            if not lock.acquire(blocking=False):
                return NotImplemented
            try:
                if not self._workers:
                    return NotImplemented
                word.value = self._state
                return native(*arrays)
            finally:
                lock.release()

        return call

    def close(self) -> None:
        """Stop and join the workers; a later run starts new ones."""
        if not self._workers:
            return
        libc = ctypes.CDLL(None)
        self._put(state.STOP, 1)
        futex = SYSTEM_CALLS[platform.machine()][0]
        word = ctypes.c_int32.from_address(self._state + state.WAKE)
        while self._workers:
            word.value += 1
            libc.syscall(
                ctypes.c_long(futex),
                ctypes.c_void_p(self._state + state.WAKE),
                ctypes.c_long(state.FUTEX_WAKE),
                ctypes.c_long(state.EVERYBODY),
                None,
            )
            libc.pthread_join(self._workers.pop(), None)
        self._put(state.STOP, 0)
        self._put(state.WORKERS, 0)

    def __del__(self) -> None:
        # Workers use the state block, so they must end before it is freed.
        if hasattr(self, "_workers"):
            self.close()

    def renew_after_fork(self) -> None:
        """Forget workers and lock in the child of a fork, which has no other threads."""
        self._renew()


_teams = weakref.WeakSet()
_shared: dict[int, Team] = {}
_shared_lock = Lock()


def shared_team(threads: int | None = None) -> Team:
    """The team of `threads` threads (None: all usable CPUs), shared by the whole process."""
    count = min(usable_cpus() if threads is None else threads, state.MAX_WORKERS + 1)
    with _shared_lock:
        if count not in _shared:
            _shared[count] = Team(count)
        return _shared[count]


def _function_address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # pyright: ignore[reportArgumentType]


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = Lock()
    for each in list(_teams):
        each.renew_after_fork()


def _close_all() -> None:
    for each in list(_teams):
        each.threads = 1  # a daemon thread may start another run, or continue one that has paused
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
