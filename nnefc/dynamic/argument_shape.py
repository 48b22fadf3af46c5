"""The shape or the items of an argument of a call: its part of the key of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnefc.runtime.memory.caller_arrays import array_of, is_array
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.value_inputs import MAX_ITEMS, ValueInput


def keys_of_arguments(
    arrays: Mapping[str, Any],
    values: Mapping[str, ValueInput],
    descriptions: Callable[[], Mapping[str, str]],
) -> list[tuple[int, ...]]:
    """The shapes of arrays, or the keys of those whose `values` decide shapes; raises NnefError."""
    problems: list[Diagnostic] = []
    keys = [
        _items_of_argument(array, name, values[name], descriptions, problems)
        if name in values
        else _shape_of_argument(array, name, descriptions, problems)
        for name, array in arrays.items()
    ]
    if problems:
        raise NnefError(problems)
    return keys


def _shape_of_argument(
    value: Any,
    name: str,
    descriptions: Callable[[], Mapping[str, str]],
    problems: list[Diagnostic],
) -> tuple[int, ...]:
    """The shape of an array, or () with an error in `problems`, which describes the input."""
    array = value if is_array(value) and hasattr(value, "shape") else None
    if array is None:
        hint = "make it one: numpy.array(x)"
        expected = f"an array {descriptions()[name]}"
        array = array_of(value, f"input {name!r}", expected, hint, problems)
    return () if array is None else tuple(int(extent) for extent in array.shape)


def _items_of_argument(
    value: Any,
    name: str,
    each: ValueInput,
    descriptions: Callable[[], Mapping[str, str]],
    problems: list[Diagnostic],
) -> tuple[int, ...]:
    """The key of an array whose values decide shapes, or () with an error in `problems`."""
    hint = "make it one: numpy.array(x)"
    expected = f"an array {descriptions()[name]}"
    array = array_of(value, f"input {name!r}", expected, hint, problems)
    if array is None:
        return ()
    what = f"input {name!r}"
    if array.dtype.name != each.dtype:
        message = f"{what} has type {array.dtype}, expected {each.dtype}"
        problems.append(Diagnostic("input/type", message, hint=f"x.astype('{each.dtype}')"))
    elif array.ndim != each.rank:
        message = f"{what} has rank {array.ndim}, expected {each.rank}"
        problems.append(Diagnostic("input/shape", message))
    elif array.size > MAX_ITEMS:
        message = f"{what} has {array.size} items; at most {MAX_ITEMS} may decide shapes"
        problems.append(Diagnostic("input/shape", message))
    else:
        return each.key(array.reshape(-1).tolist())
    return ()


def check_fixed(
    named: Mapping[str, Sequence[int]],
    fixed: Mapping[str, Sequence[int]],
    values: Mapping[str, ValueInput],
) -> None:
    """Raise NnefError for shapes, or keys of `values`, that are not those in `fixed`."""
    for name, shape in fixed.items():
        if named.get(name, shape) != shape:
            what = "values" if name in values else "shape"
            message = f"input {name!r} has {what} {named[name]}, not {shape}"
            raise NnefError.of("input/shape", message)
