"""Memory layout of the state of a native call: byte offsets for native code and Python."""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

STATE: Final = Layout(
    "run launches count bases inputs output_slot new_array output_type output_descr "
    "output_rank output_dims array_type increment decrement declined data rank dims descr flags "
    "ready"
)
"""The words of the state of a model.

- `run` to `bases`: address of `nnefc_run_alone` and its arguments
- `inputs`: number of inputs; each follows the state, laid out by `INPUT`
- `output_slot`: index of the output in the base table
- `new_array` to `output_dims`: address of `PyArray_NewFromDescr` and its arguments
- `array_type`: address of the type `numpy.ndarray`
- `increment`, `decrement`: addresses of `Py_IncRef` and `Py_DecRef`
- `declined`: the object to return if the arguments do not fit, or the run fails
- `data` to `flags`: byte offsets of fields of an array object
- `ready`: the flags that an array must have
"""
INPUT: Final = Layout("slot rank dims descr")
"""An input: its index in the base table, and the required rank, extents (an address) and dtype."""
(
    RUN,
    LAUNCHES,
    COUNT,
    BASES,
    INPUTS,
    OUTPUT_SLOT,
    NEW_ARRAY,
    OUTPUT_TYPE,
    OUTPUT_DESCR,
    OUTPUT_RANK,
    OUTPUT_DIMS,
    ARRAY_TYPE,
    INCREMENT,
    DECREMENT,
    DECLINED,
    DATA,
    RANK,
    DIMS,
    DESCR,
    FLAGS,
    READY,
) = STATE.offsets
SLOT, INPUT_RANK, INPUT_DIMS, INPUT_DESCR = INPUT.offsets
STATE_BYTES: Final = STATE.nbytes
INPUT_BYTES: Final = INPUT.nbytes
OBJECT_TYPE: Final = 8
"""Offset of the type in a Python object."""
TYPE_NUMBER: Final = 24
"""Offset in a dtype object of a word that holds kind, letter, byte order and type number."""
CAPSULE_POINTER: Final = 16
"""Offset of the pointer in a capsule."""
