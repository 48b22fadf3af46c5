"""The shape of an argument of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnefc.runtime.memory.caller_arrays import array_of, is_array
from nnefc.support.errors import Diagnostic


def shape_of_argument(
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
