"""Calls of a session of an embedded model: the plan of the next call, and the states after one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from nnefc.kernels.embedded.libc import function
from nnefc.kernels.embedded.model_layout import (
    OK,
    OWN_VALUES,
    PARAMETERS,
    PRESENT_ARENA,
    PRESENT_STATUS,
    SESSION_BYTES,
    SESSION_CAPACITY,
    SESSION_NBYTES,
    SESSION_NEW_PLACE,
    SESSION_PLACE,
    SESSION_TABLE,
    SESSIONS,
    SYMBOLS,
)
from nnefc.kernels.embedded.shapes import choose_pattern
from nnefc.kernels.embedded.states import lengths_of, next_lengths
from nnefc.kernels.vector.memory import LOAD, STORE, helper

_load, _store = LOAD["int64"], STORE["int64"]
_memcpy = function("memcpy", 3)


@helper
def set_symbols(net: int, data: int, shape: int):
    """Use the plan for values of the symbols, which stay as they were without one."""
    own, count = net + _load(data + OWN_VALUES), _load(data + PARAMETERS)
    tried = own + 8 * count
    _memcpy(tried, own, 8 * count)
    for i in range(_load(data + SYMBOLS)):
        _store(tried + 8 * i, _load(shape + 8 * i))
    status = choose_pattern(net, data, tried)
    if status == OK:
        _memcpy(own, tried, 8 * count)
        _store(net + PRESENT_STATUS, OK)
    return status


@helper
def keep_states(net: int, data: int):
    """Make the states that a call has computed those of the next one, and choose its plan."""
    count, rows = _load(data + SESSIONS), data + _load(data + SESSION_TABLE)
    lengths, after = lengths_of(net, data), next_lengths(net, data)
    for i in range(count):
        row = rows + SESSION_BYTES * i
        _store(lengths + 8 * i, _load(after + 8 * i))
        if _load(row + SESSION_CAPACITY) == 0:
            new = net + _load(row + SESSION_NEW_PLACE)
            _memcpy(net + _load(row + SESSION_PLACE), new, _load(row + SESSION_NBYTES))
    _store(lengths + 8 * count, 1)
    own = net + _load(data + OWN_VALUES)
    _store(net + PRESENT_STATUS, choose_pattern(net, data, own))


@helper
def forget_states(net: int, data: int):
    """Discard the session states, and choose the plan of a first call if symbols have values."""
    lengths = lengths_of(net, data)
    for i in range(_load(data + SESSIONS) + 1):
        _store(lengths + 8 * i, 0)
    if _load(net + PRESENT_ARENA) != 0:
        own = net + _load(data + OWN_VALUES)
        _store(net + PRESENT_STATUS, choose_pattern(net, data, own))
