"""The functions of an embedded model that a C program calls.

All models share this code and differ in the data at `DATA`.  The mutable state of an instance is
one block of memory, so that the instances of a process are independent.  C pointers are words here,
and a C `int` is the low half of a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.kernels.abi import BASE_ARENA, BASE_CODE, BASE_LIBM, BASE_PARAMS, LIBM
from nnefc.kernels.embedded.libc import function, store_addresses, symbol_address
from nnefc.kernels.embedded.model_layout import (
    ALONE,
    ARENA,
    ARGUMENT,
    BLOCK,
    CODE,
    CONSTANT_TABLE,
    CONSTANTS,
    DATA,
    DIMS,
    FIRST_CONSTANT,
    FIRST_INPUT,
    FIRST_STATE,
    FOUND,
    HEADER_WORDS,
    INDEX,
    INPUTS,
    LAUNCH_COUNT,
    MAPPED,
    MATHEMATICS,
    MUTEX,
    NO_FILE,
    NO_MEMORY,
    OK,
    OUTPUTS,
    OWN_DIMS,
    PARAMS,
    PATTERNS,
    PIECE_BYTES,
    PLAN_LAUNCHES,
    PRESENT_ARENA,
    PRESENT_ARENA_BYTES,
    PRESENT_COUNT,
    PRESENT_FIRST,
    PRESENT_FIRST_OUTPUT,
    PRESENT_LAUNCHES,
    PRESENT_RESULTS,
    PRESENT_SKIPPED,
    PRESENT_STATUS,
    PROCESSOR,
    SESSION_BYTES,
    SESSION_PLACE,
    SESSION_TABLE,
    SESSIONS,
    SHAPE,
    STATE_NBYTES,
    STATE_PLACE,
    STATE_ROW,
    STATE_TABLE,
    STATES,
    STATUS,
    SYMBOLS,
    TABLE,
    TEAM,
    TEXTS,
    THREADS,
    TOGETHER,
    WEIGHTS,
    WEIGHTS_SIZE,
    WRONG_WEIGHTS,
)
from nnefc.kernels.embedded.processor import can_execute
from nnefc.kernels.embedded.sessions import forget_states, keep_states, set_symbols
from nnefc.kernels.embedded.shapes import place
from nnefc.kernels.embedded.states import length_of
from nnefc.kernels.embedded.threads import start_threads, stop_threads
from nnefc.kernels.executor.call_status import LAUNCH, STATUS_BYTES
from nnefc.kernels.vector.memory import LOAD, STORE, helper, procedure

_load, _store = LOAD["int64"], STORE["int64"]
_store_int = STORE["int32"]

_code, _data = symbol_address(CODE), symbol_address(DATA)
_store_mathematics = store_addresses([name for name, _ in LIBM])
_open = function("open", 2, "int", fixed=2)
_lseek = function("lseek", 3)
_close = function("close", 1, "int")
_mmap = function("mmap", 6)
_munmap = function("munmap", 2, "int")
_madvise = function("madvise", 3, "int")
_memcpy = function("memcpy", 3)
_lock = function("pthread_mutex_lock", 1, "int")
_unlock = function("pthread_mutex_unlock", 1, "int")

# Linux, the same for x86-64 and aarch64
_READ, _WRITE = 1, 2
_PRIVATE, _ANONYMOUS = 0x2, 0x20
_POPULATE = 0x8000
_FAILED = -1
_CLOSE_ON_EXEC = 0x80000
_END_OF_FILE = 2
_HUGE_PAGES = 14

_LARGE = 1 << 22
"""Least bytes of an instance for which huge pages pay."""
_STATUSES = len(STATUS)

_three, _four = procedure(3), procedure(4)


@helper
def _int(word: int):
    """The value of an `int` argument: the low half of a register, sign-extended."""
    return word << 32 >> 32


# -- the file of weights


@helper
def _map_weights(net: int, data: int, path: int):
    """Map the weights file, if the model has one; returns a status."""
    nbytes = _load(data + WEIGHTS_SIZE)
    if nbytes == 0:
        return OK
    file = _open(path, _CLOSE_ON_EXEC)
    if file < 0:
        return NO_FILE
    found = _lseek(file, 0, _END_OF_FILE)
    mapped = 0
    if found == nbytes:
        # Populate all pages at once: the first inference reads all of them, and page faults would
        # cost it several times as much.
        mapped = _mmap(0, nbytes, _READ, _PRIVATE | _POPULATE, file, 0)
    _close(file)
    if found < 0:
        return NO_FILE
    if found != nbytes:
        return WRONG_WEIGHTS
    if mapped == _FAILED:
        return NO_MEMORY
    _store(net + MAPPED, mapped)
    for i in range(HEADER_WORDS):
        if _load(mapped + 8 * i) != _load(data + WEIGHTS + 8 * i):
            return WRONG_WEIGHTS
    return OK


# -- an instance


@helper
def _fill_table(net: int, code: int, data: int):
    """Fill the base table, except inputs and outputs."""
    _store_mathematics(net + MATHEMATICS)
    bases = net + TABLE
    _store(bases + 8 * BASE_CODE, code)
    _store(bases + 8 * BASE_PARAMS, data + _load(data + PARAMS))
    _store(bases + 8 * BASE_LIBM, net + MATHEMATICS)
    _store(bases + 8 * BASE_ARENA, net + _load(data + ARENA))
    first = bases + 8 * _load(data + FIRST_CONSTANT)
    rows = data + _load(data + CONSTANT_TABLE)
    for i in range(_load(data + CONSTANTS)):
        _store(first + 8 * i, place(net, data, rows + PIECE_BYTES * i))
    _store(net + PRESENT_LAUNCHES, data + _load(data + PLAN_LAUNCHES))
    _store(net + PRESENT_COUNT, _load(data + LAUNCH_COUNT))
    _store(net + PRESENT_FIRST, _load(data + FIRST_INPUT))
    _store(net + PRESENT_FIRST_OUTPUT, _load(data + FIRST_INPUT) + _load(data + INPUTS))
    _store(net + PRESENT_RESULTS, _load(data + OUTPUTS))
    first = bases + 8 * _load(data + FIRST_STATE)
    rows = data + _load(data + STATE_TABLE)
    for i in range(_load(data + STATES)):
        _store(first + 8 * i, net + _load(rows + STATE_ROW * i + STATE_PLACE))


@helper
def _set_states(net: int, data: int):
    """Give the states their initial values."""
    rows = data + _load(data + STATE_TABLE)
    for i in range(_load(data + STATES)):
        row = rows + STATE_ROW * i
        _memcpy(net + _load(row + STATE_PLACE), place(net, data, row), _load(row + STATE_NBYTES))


@helper
def _free(net: int, data: int):
    """Stop the workers and unmap all memory."""
    stop_threads(net)
    if _load(net + MAPPED) != 0:
        _munmap(_load(net + MAPPED), _load(data + WEIGHTS_SIZE))
    if _load(net + PRESENT_ARENA) != 0:
        _munmap(_load(net + PRESENT_ARENA), _load(net + PRESENT_ARENA_BYTES))
    _munmap(net, _load(data + BLOCK))


def create(path: int, threads: int, status: int) -> int:
    """`NAME_model *NAME_create(const char *weights, int threads, NAME_status *status)`."""
    code, data = _code(), _data()
    wanted, nbytes = _int(threads), _load(data + BLOCK)
    net, failed = 0, OK
    if wanted < 0 or (path == 0 and _load(data + WEIGHTS_SIZE) != 0):
        failed = ARGUMENT
    if failed == OK:
        net = _mmap(0, nbytes, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
        if net == _FAILED:
            net, failed = 0, NO_MEMORY
    if failed == OK and can_execute(code, data, net + FOUND) == 0:
        failed = PROCESSOR
    if failed == OK:
        failed = _map_weights(net, data, path)
    if failed == OK:
        if nbytes >= _LARGE:
            _madvise(net, nbytes, _HUGE_PAGES)
        _fill_table(net, code, data)
        _set_states(net, data)
        failed = start_threads(net, code, data, wanted)
    if failed == OK and _load(data + PATTERNS) > 0 and _load(data + SYMBOLS) == 0:
        failed = set_symbols(net, data, 0)
    if failed != OK and net != 0:
        _free(net, data)
        net = 0
    if status != 0:
        _store_int(status, failed)
    return net


def run(net: int, inputs: int, outputs: int) -> int:
    """`NAME_status NAME_run(NAME_model *net, const NAME_inputs *, const NAME_outputs *)`.

    The structures hold pointers to tensors, in the order of the model.  After the status INDEX the
    states have their old values, and the outputs any.
    """
    code, data = _code(), _data()
    taken, given = _load(data + INPUTS), _load(data + OUTPUTS)
    if net == 0 or (inputs == 0 and taken > 0) or (outputs == 0 and given > 0):
        return ARGUMENT
    for i in range(taken):
        if _load(inputs + 8 * i) == 0:
            return ARGUMENT
    for i in range(given):
        if _load(outputs + 8 * i) == 0:
            return ARGUMENT
    _lock(net + MUTEX)
    missing = _load(net + PRESENT_STATUS)
    if _load(data + PATTERNS) > 0 and _load(net + PRESENT_ARENA) == 0:
        missing = SHAPE
    if missing != OK:
        _unlock(net + MUTEX)
        return missing
    bases = net + TABLE
    first = bases + 8 * _load(net + PRESENT_FIRST)
    for i in range(taken):
        _store(first + 8 * i, _load(inputs + 8 * i))
    first = bases + 8 * _load(net + PRESENT_FIRST_OUTPUT)
    results, skipped = _load(net + PRESENT_RESULTS), _load(net + PRESENT_SKIPPED)
    for i in range(given):
        at = i if i < results else i + skipped
        _store(first + 8 * at, _load(outputs + 8 * i))
    launches, count = _load(net + PRESENT_LAUNCHES), _load(net + PRESENT_COUNT)
    if _load(net + THREADS) > 1 and count > 0:
        _four(code + _load(data + TOGETHER), net + TEAM, launches, count, bases)
    else:
        _three(code + _load(data + ALONE), launches, count, bases)
    failed = bases - STATUS_BYTES + LAUNCH
    status = OK if _load(failed) == 0 else INDEX
    _store(failed, 0)
    if status == OK and _load(data + SESSIONS) > 0:
        keep_states(net, data)
    _unlock(net + MUTEX)
    return status


def set_shape(net: int, shape: int) -> int:
    """`NAME_status NAME_set_shape(NAME_model *net, const NAME_shape *shape)`.

    The structure holds the values of the symbols.
    """
    data = _data()
    if net == 0 or (shape == 0 and _load(data + SYMBOLS) > 0):
        return ARGUMENT
    _lock(net + MUTEX)
    status = set_symbols(net, data, shape)
    _unlock(net + MUTEX)
    return status


def input_dims(net: int, index: int) -> int:
    """`const int64_t *NAME_input_dims(const NAME_model *net, int index)`."""
    data, i = _data(), _int(index)
    if net == 0 or i < 0 or i >= _load(data + INPUTS) or _load(net + PRESENT_ARENA) == 0:
        return 0
    return net + _load(data + OWN_DIMS) + 8 * DIMS * i


def output_dims(net: int, index: int) -> int:
    """`const int64_t *NAME_output_dims(const NAME_model *net, int index)`."""
    data, i = _data(), _int(index)
    if net == 0 or i < 0 or i >= _load(data + OUTPUTS) or _load(net + PRESENT_ARENA) == 0:
        return 0
    return net + _load(data + OWN_DIMS) + 8 * DIMS * (_load(data + INPUTS) + i)


def reset(net: int) -> None:
    """`void NAME_reset(NAME_model *net)`."""
    if net != 0:
        data = _data()
        _lock(net + MUTEX)
        _set_states(net, data)
        if _load(data + SESSIONS) > 0:
            forget_states(net, data)
        _unlock(net + MUTEX)


def state(net: int, index: int) -> int:
    """`void *NAME_state(NAME_model *net, int index)`."""
    data, i = _data(), _int(index)
    if net == 0 or i < 0 or i >= _load(data + STATES) + _load(data + SESSIONS):
        return 0
    if _load(data + SESSIONS) > 0:
        return net + _load(data + _load(data + SESSION_TABLE) + SESSION_BYTES * i + SESSION_PLACE)
    return net + _load(data + _load(data + STATE_TABLE) + STATE_ROW * i + STATE_PLACE)


def state_length(net: int, index: int) -> int:
    """`int64_t NAME_state_length(const NAME_model *net, int index)`."""
    data, i = _data(), _int(index)
    if net == 0 or i < 0 or i >= _load(data + SESSIONS):
        return -1
    return length_of(net, data, i)


def threads(net: int) -> int:
    """`int NAME_threads(const NAME_model *net)`."""
    return _load(net + THREADS) if net != 0 else 0


def destroy(net: int) -> None:
    """`void NAME_destroy(NAME_model *net)`."""
    if net != 0:
        _free(net, _data())


def status_text(status: int) -> int:
    """`const char *NAME_status_text(NAME_status status)`."""
    data, number = _data(), _int(status)
    if number < 0 or number >= _STATUSES:
        number = _STATUSES
    return data + _load(data + TEXTS + 8 * number)


FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("create", create),
    ("run", run),
    ("reset", reset),
    ("state", state),
    ("threads", threads),
    ("destroy", destroy),
    ("status_text", status_text),
)
"""The functions, by their names without the prefix of the model."""

SHAPE_FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("set_shape", set_shape),
    ("input_dims", input_dims),
    ("output_dims", output_dims),
    ("state_length", state_length),
)
"""Further functions of a model with symbols or session states."""
