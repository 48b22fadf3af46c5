"""Checks arrays of callers against the inputs and outputs of a model, and finds their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nnefc.support.array_memory import copy, is_ready
from nnefc.support.errors import Diagnostic

if TYPE_CHECKING:
    from nnefc.ir import Shape, TensorType

Array = np.ndarray[Any, Any]

BY_NAME = "for arrays by name: model(name=x), or model.run({'name': x}, out={'name': y})"
"""Hint for a mapping in a call."""


class TensorSpec(NamedTuple):
    """An input or output of a model."""

    name: str
    """The name in the document."""
    shape: Shape
    """The extents; -1 for those that vary from call to call."""
    dtype: np.dtype[Any]
    """The type of the items."""

    @classmethod
    def of(cls, name: str, type_: TensorType) -> TensorSpec:
        """The tensor `name` of a graph."""
        return cls(name, type_.dims, type_.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


def can_hold_addresses(dtype: np.dtype[Any]) -> bool:
    """Whether kernels may compute addresses from items of this type: 32 or 64-bit integers."""
    return dtype.kind in "iu" and dtype.itemsize >= 4


def fits(given: object, spec: TensorSpec) -> bool:
    """Whether `given` is a ready array of exactly this shape and type: a fast path."""
    if type(given) is not np.ndarray:
        return False
    array = cast(Array, given)
    if array.shape != spec.shape:
        return False
    # equal dtypes may be distinct objects, for example after unpickling
    dtype = array.dtype
    return (dtype is spec.dtype or dtype == spec.dtype) and is_ready(array)


def accept(
    given: object, spec: TensorSpec, problems: list[Diagnostic], what: str = "input"
) -> Array | None:
    """`given` as an array that kernels can read, copied if necessary; None after a problem.

    `what`: "input" or "variable", for messages.
    """
    array = _as_array(given, spec, problems, what)
    if array is None:
        return None
    wrong = mismatch(array, spec, what)
    if wrong is not None:
        problems.append(wrong)
        return None
    return array if is_ready(array) else copy(array, f"a copy of {what} {spec.name!r}")


def accept_target(given: object, spec: TensorSpec, problems: list[Diagnostic]) -> Array | None:
    """A NumPy view of the memory of `given`, to write a result into; None after a problem."""
    what = "out for"
    array = _as_array(given, spec, problems, what)
    if array is None:
        return None
    if not array.flags.writeable and array is not given and hasattr(given, "__array__"):
        # NumPy before 2.1 imports DLPack tensors as read-only.
        other = np.asarray(given)
        if other.ctypes.data == array.ctypes.data:
            array = other
    wrong = mismatch(array, spec, what)
    if wrong is None and not array.flags.writeable:
        wrong = Diagnostic("input/out", f"out for {spec.name!r} is read-only")
    if wrong is not None:
        problems.append(wrong)
        return None
    return array


def is_array(given: object) -> bool:
    """Whether `given` is a NumPy array or has `__array_interface__` or `__dlpack__`."""
    return (
        isinstance(given, np.ndarray)
        or hasattr(given, "__array_interface__")
        or hasattr(given, "__dlpack__")
    )


def mismatch(array: Array, spec: TensorSpec, what: str) -> Diagnostic | None:
    """The error for a wrong type or shape of `array`; None if both are right.

    `what`: "input", "variable" or "out for", for messages.
    """
    if array.dtype == spec.dtype and array.shape == spec.shape:
        return None
    target = what == "out for"
    make = f"make it: numpy.empty({spec.shape}, numpy.{_numpy_name(spec.dtype)})"
    if array.dtype != spec.dtype:
        if array.dtype.newbyteorder() == spec.dtype:
            return Diagnostic(
                "input/byte-order",
                f"{what} {spec.name!r} has the bytes of its items swapped ({array.dtype.str})",
                hint=make if target else _how_to_convert(repr(spec.dtype.str)),
            )
        hint = _how_to_convert(f"numpy.{_numpy_name(spec.dtype)}")
        if array.dtype.isbuiltin == 2 and array.dtype.itemsize == spec.dtype.itemsize == 1:
            hint = "pass the bytes of its items: x.view(numpy.uint8)"  # float8 and the like
        return Diagnostic(
            "input/dtype",
            f"{what} {spec.name!r} is {array.dtype}, expected {spec.dtype}",
            hint=make if target else hint,
        )
    from nnefc.support.wording import wording

    hints = {
        "input": wording(
            "a model is compiled for fixed shapes: compile the document with shapes={...} for "
            "others",
            "the shape is fixed by the document, by --shape, --symbol or --batch, or an artifact",
        ),
        "out for": make,
    }
    return Diagnostic(
        "input/shape",
        f"{what} {spec.name!r} has shape {list(array.shape)}, expected {list(spec.shape)}",
        hint=hints.get(what, ""),
    )


def _how_to_convert(dtype: str) -> str:
    from nnefc.support.wording import wording

    lossless = "arrays of files are converted where that changes no value: write the file with"
    return wording(f"convert it: x.astype({dtype})", f"{lossless} x.astype({dtype})")


def how_to_make(dtype: np.dtype[Any] | None) -> str:
    """The hint for an argument that is no array; None: the item type is not known."""
    given = "" if dtype is None else f", dtype=numpy.{_numpy_name(dtype)}"
    return f"make it one: numpy.array(x{given})"


def _numpy_name(dtype: np.dtype[Any]) -> str:
    return "bool_" if dtype.kind == "b" else dtype.name


def _as_array(
    given: object, spec: TensorSpec, problems: list[Diagnostic], what: str
) -> Array | None:
    """`array_of` with messages for the tensor `spec`."""
    if isinstance(given, np.ndarray):
        return cast(Array, given)
    hint = how_to_make(spec.dtype)
    if what == "out for":
        hint = f"make it: numpy.empty({spec.shape}, numpy.{_numpy_name(spec.dtype)})"
    return array_of(given, f"{what} {spec.name!r}", f"an array {spec}", hint, problems)


def array_of(
    given: object, what: str, expected: str, hint: str, problems: list[Diagnostic]
) -> Array | None:
    """A NumPy view of the memory of `given`; None after a problem.

    `hint`: for objects that are no arrays.
    """
    if isinstance(given, np.ndarray):
        return cast(Array, given)
    kind = type(given).__name__
    try:
        if hasattr(given, "__array_interface__"):
            return np.asarray(given)
        if hasattr(given, "__dlpack__"):
            device = given.__dlpack_device__()[0]  # pyright: ignore
            if device != 1:
                problems.append(
                    Diagnostic(
                        "input/device",
                        f"{what} ({kind}) is not in the memory of the CPU",
                        hint="copy it there first: x.cpu()",
                    )
                )
                return None
            return np.from_dlpack(given)  # pyright: ignore
    except Exception as error:  # array types of other libraries may raise anything
        call = "x.detach()" if "grad" in str(error) else "x.float()"
        problems.append(
            Diagnostic(
                "input/array",
                f"{what} ({kind}) gives no array: {error}",
                hint=f"for tensors of PyTorch: {call}",
            )
        )
        return None
    if isinstance(given, Mapping):
        hint = BY_NAME
    problems.append(
        Diagnostic("input/array", f"{what} is a {kind}, expected {expected}", hint=hint)
    )
    return None


def random_array(type_: TensorType, seed: int, name: str) -> Array:
    """Reproducible random data, which depends on `seed` and `name`.

    Floats are standard normal, integers are 0 or 1, truth values are equally likely.  Raises
    NnefError `limit/memory`.
    """
    import zlib  # not needed to load a model

    from nnefc.support.memory_errors import memory_errors

    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    with memory_errors(f"make random values for {name!r} ({type_})"):
        return _random(generator, type_)


def _random(generator: np.random.Generator, type_: TensorType) -> Array:
    dtype = type_.dtype.numpy
    if type_.dtype.is_float:
        return generator.standard_normal(type_.dims).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, type_.dims).astype(bool)
    return generator.integers(0, 2, type_.dims).astype(dtype)
