"""Calls of small models without Python in between.

A call of a model that computes for a microsecond takes three in Python: looking at the arrays,
making the result, crossing into native code.  Here CPython calls a native function directly.
It reads the fields of array objects, which are found by probing, so that in a build where they are
elsewhere calls go the ordinary way.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import numpy as np

from nnefc.kernels.executor.call_state import (
    CAPSULE_POINTER,
    INPUT,
    OBJECT_TYPE,
    STATE,
    TYPE_NUMBER,
)
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.memory.tensors import TensorSpec

Call = Callable[..., Any]
"""Takes arrays, gives the result; `NotImplemented` if they are not as expected."""

_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100
_NEW_FROM_DESCR = 94
"""Number of `PyArray_NewFromDescr` in NumPy's table of functions (NumPy C API)."""
_FASTCALL = 0x80
"""`METH_FASTCALL`: arguments come as a C array."""


class _Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Interface(NamedTuple):
    """Where things are in this build of CPython and NumPy."""

    fields: dict[str, int]
    """Offsets in an array object."""
    new_array: int
    increment: int
    code: ExecutableImage
    method: _Method


class FastCall(NamedTuple):
    """The function, and the memory that it uses."""

    call: Call
    keep: tuple[Any, ...]


def make_fast_call(
    inputs: Sequence[TensorSpec],
    output: TensorSpec,
    *,
    run: int,
    launches: int,
    count: int,
    bases: int,
    first_input: int,
) -> FastCall | None:
    """A call for models with one output; None where arrays are not as they usually are.

    `run`: address of `nnefc_run_alone`, which takes the others; `bases`: address of the table of
    bases, which belongs to this call alone; inputs and then the output are its entries from
    `first_input` on.  The result of a call is a new array.
    """
    interface = _interface()
    if interface is None:
        return None
    dims = [(ctypes.c_int64 * max(len(s.shape), 1))(*s.shape) for s in (*inputs, output)]
    words = STATE.pack(
        run=run,
        launches=launches,
        count=count,
        bases=bases,
        inputs=len(inputs),
        output_slot=first_input + len(inputs),
        new_array=interface.new_array,
        output_type=id(np.ndarray),
        output_descr=id(output.dtype),
        output_rank=len(output.shape),
        output_dims=ctypes.addressof(dims[-1]),
        array_type=id(np.ndarray),
        increment=interface.increment,
        declined=id(NotImplemented),
        **interface.fields,
        ready=_C_CONTIGUOUS | _ALIGNED,
    )
    for i, (spec, extents) in enumerate(zip(inputs, dims)):
        words += INPUT.pack(
            slot=first_input + i,
            rank=len(spec.shape),
            dims=ctypes.addressof(extents),
            descr=id(spec.dtype),
        )
    state = (ctypes.c_int64 * len(words))(*words)
    capsule = _capsule(ctypes.addressof(state))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p),
    )
    function = new(ctypes.addressof(interface.method), capsule, None)
    return FastCall(cast(Call, function), (state, dims, tuple(inputs), output, interface))


@cache
def _interface() -> _Interface | None:
    """None if this is not CPython with its lock, or arrays have their fields elsewhere."""
    without_lock = "t" in sys.abiflags
    if sys.implementation.name != "cpython" or without_lock:
        return None
    fields = _fields()
    new_array = _new_array()
    if fields is None or not new_array:
        return None
    code = support_code.support_image("fast_call")
    method = _Method(b"call", code.entry("nnefc_call"), _FASTCALL, b"Run the model.")
    increment = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0
    return _Interface(fields, new_array, increment, code, method)


def _fields() -> dict[str, int] | None:
    """The fields of array objects, as NumPy's headers have them, if that is where they are."""
    fields = {"data": 16, "rank": 24, "dims": 32, "descr": 56, "flags": 64}
    word, short = ctypes.c_int64.from_address, ctypes.c_int32.from_address
    for array in (np.empty((2, 3), np.float32), np.empty((4, 5, 6))[::2, :, ::3]):
        at = id(array)
        ready = array.flags.c_contiguous * _C_CONTIGUOUS | array.flags.aligned * _ALIGNED
        found = (
            word(at + OBJECT_TYPE).value == id(np.ndarray)
            and word(at + fields["data"]).value == array.ctypes.data
            and short(at + fields["rank"]).value == array.ndim
            and word(at + fields["descr"]).value == id(array.dtype)
            and short(at + fields["flags"]).value & (_C_CONTIGUOUS | _ALIGNED) == ready
        )
        if not found:
            return None
        extents = word(at + fields["dims"]).value
        if [word(extents + 8 * i).value for i in range(array.ndim)] != list(array.shape):
            return None
    single, double, swapped = (np.dtype(kind) for kind in ("<f4", "<f8", ">f4"))
    kinds = [word(id(dtype) + TYPE_NUMBER).value for dtype in (single, double, swapped)]
    if len(set(kinds)) < 3 or kinds[0] >> 32 != single.num:
        return None
    capsule = _capsule(0x1234568)
    return fields if word(id(capsule) + CAPSULE_POINTER).value == 0x1234568 else None


def _capsule(address: int) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p,) * 3
    return new(address, None, None)


def _new_array() -> int:
    """The address of `PyArray_NewFromDescr`, if it makes an array."""
    core = "numpy._core" if find_spec("numpy._core") else "numpy.core"  # before NumPy 2
    module: Any = import_module(f"{core}._multiarray_umath")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(module._ARRAY_API, None)
    address = ctypes.c_int64.from_address(table + 8 * _NEW_FROM_DESCR).value
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_int,
        *[ctypes.c_void_p] * 3,
        ctypes.c_int,
        ctypes.c_void_p,
    )
    dims, dtype = (ctypes.c_int64 * 2)(3, 5), np.dtype(np.float32)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the call takes a reference
    made = kind(address)(np.ndarray, dtype, 2, ctypes.addressof(dims), None, None, 0, None)
    fine = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is dtype
    return address if fine else 0
