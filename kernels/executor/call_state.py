"""Memory layout of the state of a native call: byte offsets for native code and Python."""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

STATE: Final = Layout(
    "run team launches count bases busy inputs outputs new_array new_tuple set_item array_type "
    "increment decrement release_lock take_lock declined data rank dims descr flags ready"
)
"""The words of the state of a model.

- `run`: address of `nnefc_run_alone`, or of `nnefc_run_together` if `team` is not 0
- `team` to `bases`: its arguments
- `busy`: 1 while a call runs without the lock of the interpreter
- `inputs`, `outputs`: their numbers; each input, then each output follows, laid out by `ARRAY`
- `new_array`, `new_tuple`, `set_item`: addresses of `PyArray_NewFromDescr`, `PyTuple_New` and
  `PyTuple_SetItem`
- `array_type`: address of the type `numpy.ndarray`
- `increment`, `decrement`: addresses of `Py_IncRef` and `Py_DecRef`
- `release_lock`, `take_lock`: addresses of `PyEval_SaveThread` and `PyEval_RestoreThread`; 0: runs
  keep the lock of the interpreter
- `declined`: the object to return if the arguments do not fit, or the run fails
- `data` to `flags`: byte offsets of fields of an array object
- `ready`: the flags that an array must have
"""
ARRAY: Final = Layout("slot rank dims descr")
"""An input or output: its index in the base table, its rank, extents (an address) and dtype."""
(
    RUN,
    TEAM,
    LAUNCHES,
    COUNT,
    BASES,
    BUSY,
    INPUTS,
    OUTPUTS,
    NEW_ARRAY,
    NEW_TUPLE,
    SET_ITEM,
    ARRAY_TYPE,
    INCREMENT,
    DECREMENT,
    RELEASE_LOCK,
    TAKE_LOCK,
    DECLINED,
    DATA,
    RANK,
    DIMS,
    DESCR,
    FLAGS,
    READY,
) = STATE.offsets
SLOT, ARRAY_RANK, ARRAY_DIMS, ARRAY_DESCR = ARRAY.offsets
STATE_BYTES: Final = STATE.nbytes
ARRAY_BYTES: Final = ARRAY.nbytes
OBJECT_TYPE: Final = 8
"""Offset of the type in a Python object."""
TYPE_NUMBER: Final = 24
"""Offset in a dtype object of a word that holds kind, letter, byte order and type number."""
CAPSULE_POINTER: Final = 16
"""Offset of the pointer in a capsule."""
