"""The native function that Python calls to run a small model.

It reads fields of arrays at the offsets of NumPy's C structures.  If an argument does not match the
model exactly, it returns the object `DECLINED` and the caller takes the general path.  So it does
if the run has recorded an error, which the general path meets again and raises.  After a run that
has paused it declines all calls, because the general path handles signals.

A run of a larger model releases the lock of the interpreter.  While it runs, the table of bases is
in use, and other calls are declined.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportMissingParameterType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.executor.call_state import (
    ARRAY_BYTES,
    ARRAY_DESCR,
    ARRAY_DIMS,
    ARRAY_RANK,
    ARRAY_TYPE,
    BASES,
    BUSY,
    CAPSULE_POINTER,
    COUNT,
    DATA,
    DECLINED,
    DECREMENT,
    DESCR,
    DIMS,
    FLAGS,
    INCREMENT,
    INPUTS,
    LAUNCHES,
    NEW_ARRAY,
    NEW_TUPLE,
    OBJECT_TYPE,
    OUTPUTS,
    RANK,
    READY,
    RELEASE_LOCK,
    RUN,
    SET_ITEM,
    SLOT,
    STATE_BYTES,
    TAKE_LOCK,
    TEAM,
    TYPE_NUMBER,
)
from nnefc.kernels.executor.call_status import LAUNCH, PAUSED, STATUS_BYTES
from nnefc.kernels.vector.memory import LOAD, STORE, WORD, helper, native, procedure

_load, _store, _load_int = LOAD["int64"], STORE["int64"], LOAD["int32"]
_run, _run_team, _count, _take_lock = procedure(3), procedure(4), procedure(1), procedure(1)


def _function(count: int) -> Any:
    """Intrinsic `call(function, *words)` that returns a word."""

    def call(builder, function, *words):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * count)
        return builder.call(builder.inttoptr(function, kind.as_pointer()), words)

    return native(WORD, *[WORD] * (count + 1))(call)


_new_array, _new_tuple, _set_item, _release_lock = map(_function, (8, 1, 3, 0))


@helper
def _fits(state: int, array: int, expected: int):
    """1 if kernels can read `array` in place as the input `expected`, else 0."""
    if _load(array + OBJECT_TYPE) != _load(state + ARRAY_TYPE):
        return 0
    ready = _load(state + READY)
    if _load_int(array + _load(state + FLAGS)) & ready != ready:
        return 0
    descr, wanted = _load(array + _load(state + DESCR)), _load(expected + ARRAY_DESCR)
    if descr != wanted and _load(descr + TYPE_NUMBER) != _load(wanted + TYPE_NUMBER):
        return 0
    rank = _load(expected + ARRAY_RANK)
    if _load_int(array + _load(state + RANK)) != rank:
        return 0
    extents, dims = _load(array + _load(state + DIMS)), _load(expected + ARRAY_DIMS)
    for axis in range(rank):
        if _load(extents + 8 * axis) != _load(dims + 8 * axis):
            return 0
    return 1


@helper
def _decline(state: int):
    """The object that sends the caller to the general path."""
    declined = _load(state + DECLINED)
    _count(_load(state + INCREMENT), declined)
    return declined


@helper
def _accept(state: int, arguments: int, count: int):
    """Enter the addresses of all inputs into the table of bases; 0 if one does not fit, else 1."""
    bases, data = _load(state + BASES), _load(state + DATA)
    if count != _load(state + INPUTS) or _load(state + BUSY) != 0:
        return 0
    if _load(bases - STATUS_BYTES + LAUNCH) != 0:
        return 0
    for i in range(count):
        array, expected = _load(arguments + 8 * i), state + STATE_BYTES + ARRAY_BYTES * i
        if _fits(state, array, expected) == 0:
            return 0
        _store(bases + 8 * _load(expected + SLOT), _load(array + data))
    return 1


@helper
def _new_output(state: int, number: int):
    """A new array for an output, whose address is entered into the table of bases; 0 for none."""
    output = state + STATE_BYTES + ARRAY_BYTES * (_load(state + INPUTS) + number)
    descr = _load(output + ARRAY_DESCR)
    _count(_load(state + INCREMENT), descr)
    new, kind = _load(state + NEW_ARRAY), _load(state + ARRAY_TYPE)
    rank, dims = _load(output + ARRAY_RANK), _load(output + ARRAY_DIMS)
    array = _new_array(new, kind, descr, rank, dims, 0, 0, 0, 0)
    if array != 0:
        slot = _load(state + BASES) + 8 * _load(output + SLOT)
        _store(slot, _load(array + _load(state + DATA)))
    return array


@helper
def _launch(state: int):
    """Run the plan; returns 0 if it has recorded an error, else 1."""
    run, team, bases = _load(state + RUN), _load(state + TEAM), _load(state + BASES)
    launches, count = _load(state + LAUNCHES), _load(state + COUNT)
    release, thread = _load(state + RELEASE_LOCK), 0
    if release != 0:
        _store(state + BUSY, 1)
        thread = _release_lock(release)
    if team != 0:
        _run_team(run, team, launches, count, bases)
    else:
        _run(run, launches, count, bases)
    if release != 0:
        _take_lock(_load(state + TAKE_LOCK), thread)
        _store(state + BUSY, 0)
    failed = bases - STATUS_BYTES + LAUNCH
    if _load(failed) != 0:
        if _load(failed) != PAUSED:
            _store(failed, 0)
        return 0
    return 1


def call(capsule: int, arguments: int, count: int) -> int:
    """A `METH_FASTCALL` function; `capsule` holds the address of the state."""
    state = _load(capsule + CAPSULE_POINTER)
    outputs, result = _load(state + OUTPUTS), 0
    if outputs != 1:
        # first of all: a new tuple may start a collection of garbage, which may call the model
        result = _new_tuple(_load(state + NEW_TUPLE), outputs)
        if result == 0:
            return 0
    works = _accept(state, arguments, count)
    if works != 0:
        if outputs == 1:
            result = _new_output(state, 0)
            if result == 0:
                return 0
        else:
            for i in range(outputs):
                array = _new_output(state, i)
                if array == 0:
                    _count(_load(state + DECREMENT), result)
                    return 0
                _set_item(_load(state + SET_ITEM), result, i, array)
        works = _launch(state)
    if works == 0:
        if result != 0:
            _count(_load(state + DECREMENT), result)
        return _decline(state)
    return result


FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (("nnefc_call", call),)
"""The functions of the image, by symbol."""
