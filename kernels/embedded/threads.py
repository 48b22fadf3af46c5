"""The worker threads of an instance of an embedded model."""

from __future__ import annotations

from nnefc.kernels.embedded.libc import function, store_addresses
from nnefc.kernels.embedded.model_layout import (
    BEFORE,
    BLOCKED,
    HANDLES,
    MODEL_FUTEX,
    MODEL_GETAFFINITY,
    MODEL_GETTID,
    MODEL_SETAFFINITY,
    MODEL_SPINS,
    MODEL_YIELD,
    NO_THREADS,
    OK,
    PARALLEL,
    TEAM,
    THREADS,
    WORK,
)
from nnefc.kernels.executor.team_state import (
    EVERYBODY,
    FUTEX,
    FUTEX_WAKE,
    GETAFFINITY,
    GETCPU,
    GETTID,
    MASK_BYTES,
    MASKS,
    MAX_WORKERS,
    SETAFFINITY,
    SPINS,
    STOP,
    SYSCALL,
    WAKE,
    WORKERS,
    YIELD,
)
from nnefc.kernels.vector.memory import LOAD, STORE, acquire, exchange, fetch_add, helper

_load, _store = LOAD["int64"], STORE["int64"]
_store_syscall, _store_getcpu = store_addresses(["syscall"]), store_addresses(["sched_getcpu"])
_get_affinity = function("sched_getaffinity", 3, "int")
_yield = function("sched_yield", 0, "int")
_syscall = function("syscall", 4, fixed=1)
_create_thread = function("pthread_create", 4, "int")
_join_thread = function("pthread_join", 2, "int")
_set_signals = function("pthread_sigmask", 3, "int")
_SET_MASK = 2
_ALL = -1


@helper
def start_threads(net: int, code: int, data: int, wanted: int):
    """Start the workers if the model has work for several threads; returns OK or NO_THREADS.

    `wanted`: number of threads including the caller; 0 for one per usable processor.
    """
    _store(net + THREADS, 1)
    if _load(data + PARALLEL) == 0:
        return OK
    team = net + TEAM
    if wanted == 0:
        _get_affinity(0, MASK_BYTES, team + MASKS)
        for i in range(0, MASK_BYTES, 8):
            word = _load(team + MASKS + i)
            for bit in range(64):
                wanted += word >> bit & 1
    _store_syscall(team + SYSCALL)
    _store_getcpu(team + GETCPU)
    _store(team + SPINS, _load(data + MODEL_SPINS))
    _store(team + FUTEX, _load(data + MODEL_FUTEX))
    _store(team + SETAFFINITY, _load(data + MODEL_SETAFFINITY))
    _store(team + GETAFFINITY, _load(data + MODEL_GETAFFINITY))
    _store(team + GETTID, _load(data + MODEL_GETTID))
    _store(team + YIELD, _load(data + MODEL_YIELD))
    # Workers block all signals, so that the program's own threads receive them.
    for i in range(0, MASK_BYTES, 8):
        _store(net + BLOCKED + i, _ALL)
    _set_signals(_SET_MASK, net + BLOCKED, net + BEFORE)
    failed = 0
    for i in range(min(wanted, MAX_WORKERS + 1) - 1):
        failed = _create_thread(net + HANDLES + 8 * i, 0, code + _load(data + WORK), team)
        if failed != 0:
            break
        _store(net + THREADS, i + 2)
        while acquire(team + WORKERS) <= i:  # workers take their slots in order
            _yield()
    _set_signals(_SET_MASK, net + BEFORE, 0)
    return OK if failed == 0 else NO_THREADS


@helper
def stop_threads(net: int):
    """Stop and join the workers."""
    workers = _load(net + THREADS) - 1
    if workers > 0:
        team = net + TEAM
        exchange(team + STOP, 1)
        fetch_add(team + WAKE, 1)
        _syscall(_load(team + FUTEX), team + WAKE, FUTEX_WAKE, EVERYBODY)
        for i in range(workers):
            _join_thread(_load(net + HANDLES + 8 * i), 0)
