"""The state of a native call of a small model: byte offsets for native code and Python."""

from __future__ import annotations

from typing import Final

from nnefc.kernels.parameters import Layout

STATE: Final = Layout(
    "run launches count bases inputs output_slot new_array output_type output_descr "
    "output_rank output_dims array_type increment declined data rank dims descr flags ready"
)
"""The state of a model, in words: the address of `nnefc_run_alone` and its
arguments (bases: the table); the number of inputs; which base is that of the output;
`PyArray_NewFromDescr` and its arguments, references to be incremented by `Py_IncRef` first; the
object to return if the arguments do not fit.  Then the byte offsets of fields in an array object,
and the flags that it must have.  The inputs follow, each laid out by `INPUT`."""
INPUT: Final = Layout("slot rank dims descr")
"""The base of the input, and the required type and rank of the array; dims: address of extents."""
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
"""Offset in a type of items of a word that holds kind, letter, byte order and number."""
CAPSULE_POINTER: Final = 16
"""Offset of the pointer in a capsule."""
