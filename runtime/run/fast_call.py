"""Native calls of small models, without Python code.

A call in Python takes three microseconds: checking the arrays, allocating the result, crossing
into native code.  Here CPython calls a native function directly.  It reads the fields of NumPy's
array objects; probes check their offsets, and other builds use the ordinary call.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nnefc.kernels.executor.call_state import (
    ARRAY,
    CAPSULE_POINTER,
    OBJECT_TYPE,
    STATE,
    TEAM,
    TYPE_NUMBER,
)
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.memory.caller_arrays import TensorSpec

if TYPE_CHECKING:
    from nnefc.runtime.run.team import Team

Call = Callable[..., Any]
"""Returns the result for some arrays, or `NotImplemented` if they need checks or copies, or if the
run fails."""

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
    """Addresses and offsets in this build of CPython and NumPy."""

    fields: dict[str, int]
    """Offsets of the fields of an array object."""
    functions: dict[str, int]
    """Addresses of functions, by fields of the state."""
    code: ExecutableImage
    method: _Method


class FastCall(NamedTuple):
    """The function, and the objects whose memory it uses."""

    call: Call
    alive: tuple[Any, ...]


class PlanCall(NamedTuple):
    """How a plan is run."""

    run: int
    """Address of `nnefc_run_alone`, or of `nnefc_run_together` with a team."""
    launches: int
    steps: int
    bases: int
    """Address of a table of bases owned by the call, behind its status."""
    first_input: int
    """The entry of the table for the first input; the others follow, then the outputs."""
    releases_lock: bool
    """Whether a run releases the lock of the interpreter, which takes longer."""


def make_fast_call(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    plan: PlanCall,
    team: Team | None = None,
) -> FastCall | None:
    """A native call for a model; None if this build's arrays differ.

    The results of a call are new arrays.  With a `team` the plan is run by it, or declined if the
    team is busy or sleeps.
    """
    interface = _interface()
    if interface is None:
        return None
    specs = (*inputs, *outputs)
    dims = [(ctypes.c_int64 * max(len(s.shape), 1))(*s.shape) for s in specs]
    words = STATE.pack(
        run=plan.run,
        team=0,
        launches=plan.launches,
        count=plan.steps,
        bases=plan.bases,
        busy=0,
        inputs=len(inputs),
        outputs=len(outputs),
        array_type=id(np.ndarray),
        release_lock=_python("PyEval_SaveThread") if plan.releases_lock else 0,
        take_lock=_python("PyEval_RestoreThread"),
        declined=id(NotImplemented),
        **interface.functions,
        **interface.fields,
        ready=_C_CONTIGUOUS | _ALIGNED,
    )
    for i, (spec, extents) in enumerate(zip(specs, dims)):
        words += ARRAY.pack(
            slot=plan.first_input + i,
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
    call = cast(Call, function)
    if team is not None:
        call = team.calls(call, ctypes.c_int64.from_buffer(state, TEAM))
    return FastCall(call, (state, dims, specs, interface))


@cache
def _interface() -> _Interface | None:
    """The interface of this build; None unless it is CPython with a GIL and the probes succeed."""
    without_lock = "t" in sys.abiflags
    if sys.implementation.name != "cpython" or without_lock:
        return None
    fields = _fields()
    new_array = _new_array()
    if fields is None or not new_array:
        return None
    code = support_code.support_image("fast_call")
    method = _Method(b"call", code.entry("nnefc_call"), _FASTCALL, b"Run the model.")
    functions = {
        "new_array": new_array,
        "new_tuple": _python("PyTuple_New"),
        "set_item": _python("PyTuple_SetItem"),
        "increment": _python("Py_IncRef"),
        "decrement": _python("Py_DecRef"),
    }
    return _Interface(fields, functions, code, method)


def _python(name: str) -> int:
    """The address of a function of CPython."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _fields() -> dict[str, int] | None:
    """Offsets of the fields of `PyArrayObject` in NumPy's headers; None if probes disagree."""
    fields = {"data": 16, "rank": 24, "dims": 32, "descr": 56, "flags": 64}
    word, short = ctypes.c_int64.from_address, ctypes.c_int32.from_address
    for array in (np.empty((2, 3), np.float32), np.empty((4, 5, 6))[::2, :, ::3]):
        at = id(array)
        ready = array.flags.c_contiguous * _C_CONTIGUOUS | array.flags.aligned * _ALIGNED
        agrees = (
            word(at + OBJECT_TYPE).value == id(np.ndarray)
            and word(at + fields["data"]).value == array.ctypes.data
            and short(at + fields["rank"]).value == array.ndim
            and word(at + fields["descr"]).value == id(array.dtype)
            and short(at + fields["flags"]).value & (_C_CONTIGUOUS | _ALIGNED) == ready
        )
        if not agrees:
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
    """The address of `PyArray_NewFromDescr`; 0 if a test call fails."""
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
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the call steals a reference
    array = kind(address)(np.ndarray, dtype, 2, ctypes.addressof(dims), None, None, 0, None)
    works = type(array) is np.ndarray and array.shape == (3, 5) and array.dtype is dtype
    return address if works else 0
