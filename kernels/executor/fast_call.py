"""The native function that Python calls to run a small model.

It reads fields of arrays at the offsets of NumPy's C structures.  If an argument does not match the
model exactly, it returns the object `DECLINED` and the caller takes the general path.  So it does
if the run has recorded an error, which the general path meets again and raises.  After a run that
has paused, which holds up other threads of Python, it declines all calls.
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
    ARRAY_TYPE,
    BASES,
    CAPSULE_POINTER,
    COUNT,
    DATA,
    DECLINED,
    DECREMENT,
    DESCR,
    DIMS,
    FLAGS,
    INCREMENT,
    INPUT_BYTES,
    INPUT_DESCR,
    INPUT_DIMS,
    INPUT_RANK,
    INPUTS,
    LAUNCHES,
    NEW_ARRAY,
    OBJECT_TYPE,
    OUTPUT_DESCR,
    OUTPUT_DIMS,
    OUTPUT_RANK,
    OUTPUT_SLOT,
    OUTPUT_TYPE,
    RANK,
    READY,
    RUN,
    SLOT,
    STATE_BYTES,
    TYPE_NUMBER,
)
from nnefc.kernels.executor.call_status import LAUNCH, PAUSED, STATUS_BYTES
from nnefc.kernels.vector.memory import LOAD, STORE, WORD, helper, native, procedure

_load, _store, _load_int = LOAD["int64"], STORE["int64"], LOAD["int32"]
_run, _count = procedure(3), procedure(1)


def _function(count: int) -> Any:
    """Intrinsic `call(function, *words)` that returns a word."""

    def call(builder, function, *words):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * count)
        return builder.call(builder.inttoptr(function, kind.as_pointer()), words)

    return native(WORD, *[WORD] * (count + 1))(call)


_new_array = _function(8)


@helper
def _fits(state: int, array: int, expected: int):
    """1 if kernels can read `array` in place as the input `expected`, else 0."""
    if _load(array + OBJECT_TYPE) != _load(state + ARRAY_TYPE):
        return 0
    ready = _load(state + READY)
    if _load_int(array + _load(state + FLAGS)) & ready != ready:
        return 0
    descr, wanted = _load(array + _load(state + DESCR)), _load(expected + INPUT_DESCR)
    if descr != wanted and _load(descr + TYPE_NUMBER) != _load(wanted + TYPE_NUMBER):
        return 0
    rank = _load(expected + INPUT_RANK)
    if _load_int(array + _load(state + RANK)) != rank:
        return 0
    extents, dims = _load(array + _load(state + DIMS)), _load(expected + INPUT_DIMS)
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


def call(capsule: int, arguments: int, count: int) -> int:
    """A `METH_FASTCALL` function; `capsule` holds the address of the state."""
    state = _load(capsule + CAPSULE_POINTER)
    bases, data = _load(state + BASES), _load(state + DATA)
    failed = bases - STATUS_BYTES + LAUNCH
    fits = 1 if count == _load(state + INPUTS) and _load(failed) == 0 else 0
    if fits != 0:
        for i in range(count):
            array = _load(arguments + 8 * i)
            expected = state + STATE_BYTES + INPUT_BYTES * i
            if _fits(state, array, expected) == 0:
                fits = 0
                break
            _store(bases + 8 * _load(expected + SLOT), _load(array + data))
    if fits == 0:
        return _decline(state)
    descr = _load(state + OUTPUT_DESCR)
    _count(_load(state + INCREMENT), descr)
    result = _new_array(
        _load(state + NEW_ARRAY),
        _load(state + OUTPUT_TYPE),
        descr,
        _load(state + OUTPUT_RANK),
        _load(state + OUTPUT_DIMS),
        0,
        0,
        0,
        0,
    )
    if result != 0:
        _store(bases + 8 * _load(state + OUTPUT_SLOT), _load(result + data))
        _run(_load(state + RUN), _load(state + LAUNCHES), _load(state + COUNT), bases)
        if _load(failed) != 0:
            if _load(failed) != PAUSED:
                _store(failed, 0)
            _count(_load(state + DECREMENT), result)
            return _decline(state)
    return result


FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (("nnefc_call", call),)
"""The functions of the image, by symbol."""
