"""The states that a session of an embedded model keeps: their memory and their lengths.

Growing states have memory for the most items that were named when the model was written; calls
append to it in place.  Other states have memory for their value and for the new value.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from nnefc.kernels.embedded.model_layout import (
    OWN_VALUES,
    PARAMETERS,
    PATTERN_SESSION,
    PRESENT_SKIPPED,
    REGISTERS,
    SESSION_BYTES,
    SESSION_CAPACITY,
    SESSION_NEW_PLACE,
    SESSION_PLACE,
    SESSION_TABLE,
    SESSIONS,
    SYMBOLS,
    TABLE,
    USE_APPENDED,
    USE_BYTES,
    USE_RETURNED,
    USE_TAKEN,
)
from nnefc.kernels.vector.memory import LOAD, STORE, helper

_load, _store = LOAD["int64"], STORE["int64"]


@helper
def lengths_of(net: int, data: int):
    """The address of the lengths of session states."""
    return net + _load(data + OWN_VALUES) + 8 * _load(data + SYMBOLS)


@helper
def next_lengths(net: int, data: int):
    """The address of the lengths of session states after the next call."""
    return net + _load(data + OWN_VALUES) + 16 * _load(data + PARAMETERS)


@helper
def values_of_first_call(net: int, data: int):
    """The address of memory for the parameters of a first call."""
    return next_lengths(net, data) + 8 * _load(data + SESSIONS)


@helper
def has_room(net: int, data: int, row: int, values: int):
    """Whether session states have room for the items that a call with a pattern appends.

    Its registers are computed.
    """
    registers, uses = net + _load(data + REGISTERS), data + _load(row + PATTERN_SESSION)
    rows, lengths = data + _load(data + SESSION_TABLE), values + 8 * _load(data + SYMBOLS)
    for i in range(_load(data + SESSIONS)):
        appended = _load(uses + USE_BYTES * i + USE_APPENDED)
        if appended >= 0:
            items = _load(lengths + 8 * i) + _load(registers + 8 * appended)
            if items > _load(rows + SESSION_BYTES * i + SESSION_CAPACITY):
                return 0
    return 1


@helper
def use_states(net: int, data: int, row: int):
    """Give a plan the memory of session states, and compute their lengths after its call."""
    bases, registers = net + TABLE, net + _load(data + REGISTERS)
    uses, rows = data + _load(row + PATTERN_SESSION), data + _load(data + SESSION_TABLE)
    after, own = next_lengths(net, data), registers + 8 * _load(data + SYMBOLS)
    skipped = 0
    for i in range(_load(data + SESSIONS)):
        use, state = uses + USE_BYTES * i, rows + SESSION_BYTES * i
        taken, returned = _load(use + USE_TAKEN), _load(use + USE_RETURNED)
        if taken >= 0:
            _store(bases + 8 * taken, net + _load(state + SESSION_PLACE))
        if returned >= 0:
            _store(bases + 8 * returned, net + _load(state + SESSION_NEW_PLACE))
            skipped += 1
        appended = _load(use + USE_APPENDED)
        more = _load(registers + 8 * appended) if appended >= 0 else 0
        _store(after + 8 * i, _load(own + 8 * i) + more)
    _store(net + PRESENT_SKIPPED, skipped)


@helper
def length_of(net: int, data: int, index: int):
    """The length of a growing session state; -1 for other states."""
    row = data + _load(data + SESSION_TABLE) + SESSION_BYTES * index
    if _load(row + SESSION_CAPACITY) == 0:
        return -1
    return _load(lengths_of(net, data) + 8 * index)
