"""The shape or the items of an argument of a call: its part of the key of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.runtime.memory.caller_arrays import array_of, how_to_make, is_array
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.value_inputs import MAX_ITEMS, ValueInput

if TYPE_CHECKING:
    from nnefc.dynamic.named_shapes import Shapes
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.runtime.memory.caller_arrays import TensorSpec

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]


def keys_of_arguments(
    arrays: Mapping[str, Any],
    values: Mapping[str, ValueInput],
    expected: Callable[[str], tuple[str, Dtype | None]],
) -> list[tuple[int, ...]]:
    """The shapes of arrays, or the keys of those whose `values` decide shapes; raises NnefError.

    `expected` returns the description and the item type of an input, for messages.
    """
    problems: list[Diagnostic] = []
    keys: list[tuple[int, ...]] = []
    for name, given in arrays.items():
        array = given
        if not isinstance(given, np.ndarray) and (name in values or not _has_shape(given)):
            text, dtype = expected(name)
            hint = how_to_make(dtype)
            array = array_of(given, f"input {name!r}", f"an array {text}", hint, problems)
        if array is None:
            keys.append(())
        elif name in values:
            keys.append(_items_of(array, name, values[name], problems))
        else:
            keys.append(tuple(int(extent) for extent in array.shape))
    if problems:
        raise NnefError(problems)
    return keys


def expected_array(
    source: GraphSource, fixed: Shapes, inputs: Iterable[TensorSpec], name: str
) -> tuple[str, Dtype | None]:
    """The description and the item type of an input, whose rank may be unknown.

    `fixed`: shapes of inputs that the model was compiled with.
    """
    from nnefc.dynamic.named_shapes import descriptions

    text = descriptions(source, fixed).get(name, f"{name} of any shape")
    return text, next((each.dtype for each in inputs if each.name == name), None)


def _has_shape(given: object) -> bool:
    """Whether an object is an array of another library that tells its shape."""
    return is_array(given) and hasattr(given, "shape")


def _items_of(
    array: Array, name: str, each: ValueInput, problems: list[Diagnostic]
) -> tuple[int, ...]:
    """The key of an array whose values decide shapes, or () with an error in `problems`."""
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
