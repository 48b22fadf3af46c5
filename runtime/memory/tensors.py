"""Arrays of callers: what a model expects, what it was given, and where the items are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nnefc.support.array_memory import copy, is_ready
from nnefc.support.errors import Diagnostic

if TYPE_CHECKING:
    from nnefc.ir import Shape, TensorType

Array = np.ndarray[Any, Any]

BY_NAME = "arrays by name are for run: model.run({'name': x}, out={'name': y})"
"""Hint for a mapping in a call."""


class TensorSpec(NamedTuple):
    """An input or output of a model."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, type_: TensorType) -> TensorSpec:
        """The tensor `name` of a graph."""
        return cls(name, type_.dims, type_.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


def can_hold_addresses(dtype: np.dtype[Any]) -> bool:
    """Whether kernels may compute addresses with such items: integers of 32 and 64 bits."""
    return dtype.kind in "iu" and dtype.itemsize >= 4


def fits(given: object, spec: TensorSpec) -> bool:
    """Whether `given` needs neither check nor copy; the common case, quickly."""
    if type(given) is not np.ndarray:
        return False
    array = cast(Array, given)
    if array.shape != spec.shape:
        return False
    # the same type may be another object: arrays that were pickled bring one along
    dtype = array.dtype
    return (dtype is spec.dtype or dtype == spec.dtype) and is_ready(array)


def accept(
    given: object, spec: TensorSpec, problems: list[Diagnostic], what: str = "input"
) -> Array | None:
    """`given` as an array that kernels can read: itself, or a copy; None after a problem.

    `what` it is, "input" or "variable", is for messages.
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
    """The memory of `given`, to write a result into; None after a problem."""
    what = "out for"
    array = _as_array(given, spec, problems, what)
    if array is None:
        return None
    if not array.flags.writeable and array is not given and hasattr(given, "__array__"):
        # NumPy before 2.1 takes what comes through DLPack for read-only.
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
    """Whether `given` shares memory in one of the ways that are understood."""
    return (
        isinstance(given, np.ndarray)
        or hasattr(given, "__array_interface__")
        or hasattr(given, "__dlpack__")
    )


def mismatch(array: Array, spec: TensorSpec, what: str) -> Diagnostic | None:
    """What is wrong with the type or shape of `array`, if anything.

    `what` it is, "input", "variable" or "out for", is for messages.
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
                hint=make if target else f"convert it: x.astype({spec.dtype.str!r})",
            )
        return Diagnostic(
            "input/dtype",
            f"{what} {spec.name!r} is {array.dtype}, expected {spec.dtype}",
            hint=make if target else f"convert it: x.astype(numpy.{_numpy_name(spec.dtype)})",
        )
    hints = {
        "input": "a model is compiled for fixed shapes: compile the document with --shape, or"
        " shapes={...}, for others",
        "out for": make,
    }
    return Diagnostic(
        "input/shape",
        f"{what} {spec.name!r} has shape {list(array.shape)}, expected {list(spec.shape)}",
        hint=hints.get(what, ""),
    )


def _numpy_name(dtype: np.dtype[Any]) -> str:
    return "bool_" if dtype.kind == "b" else dtype.name


def _as_array(
    given: object, spec: TensorSpec, problems: list[Diagnostic], what: str
) -> Array | None:
    """The memory of `given` as a NumPy array, without a copy where there is one."""
    if isinstance(given, np.ndarray):
        return cast(Array, given)
    hint = f"make it one: numpy.array(x, dtype=numpy.{_numpy_name(spec.dtype)})"
    if what == "out for":
        hint = f"make it: numpy.empty({spec.shape}, numpy.{_numpy_name(spec.dtype)})"
    return array_of(given, f"{what} {spec.name!r}", f"an array {spec}", hint, problems)


def array_of(
    given: object, what: str, expected: str, hint: str, problems: list[Diagnostic]
) -> Array | None:
    """The memory of `given` as a NumPy array, without a copy where there is one.

    None after a problem; `hint` is for what is no array at all.
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
    except Exception as error:  # whatever a foreign array type raises
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
    """Reproducible data of a tensor type, told apart by `name`.

    Normal scalars, integers from 0 to 3, coin flips.
    """
    import zlib  # not needed to load a model

    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    dtype = type_.dtype.numpy
    if type_.dtype.is_float:
        return generator.standard_normal(type_.dims).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, type_.dims).astype(bool)
    return generator.integers(0, 4, type_.dims).astype(dtype)
