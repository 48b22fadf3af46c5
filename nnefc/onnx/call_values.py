"""Values of a call: arrays, lists of arrays for sequences, None for optionals without an element.

Models take and give narrow types, such as float8 and int4, as bytes; here they are arrays of
`ml_dtypes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from nnefc.formats.onnx.value_types import STRING, ValueType
from nnefc.support.errors import Diagnostic, NnefError

Array = np.ndarray[Any, Any]


def has_sequences(*types: Mapping[str, ValueType]) -> bool:
    """Whether inputs or outputs are sequences or optionals."""
    return any(each.form in ("seq", "optional") for every in types for each in every.values())


def has_strings(types: Mapping[str, ValueType]) -> bool:
    """Whether inputs hold strings, which only constants do in a compiled model."""
    return any(_is_text(each) for each in types.values())


def _is_text(type_: ValueType) -> bool:
    while type_.element:
        type_ = type_.element
    return type_.elem_type == STRING


def given_values(
    named: Mapping[str, Any], types: Mapping[str, ValueType]
) -> dict[str, Array | list[Array] | None]:
    """Values of a call as the model takes them.

    A list of numbers is an array of the declared item type.  Raises NnefError `input/array` for one
    that is none, for None where the type of the input has none, and for an array where it is a
    sequence.
    """
    problems: list[Diagnostic] = []
    values: dict[str, Array | list[Array] | None] = {}
    for name, x in named.items():
        type_ = types.get(name, ValueType("tensor"))
        is_optional = type_.form == "optional"
        inner = type_.element if is_optional and type_.element else type_
        if x is None and is_optional:
            values[name] = None
        elif inner.form == "seq":
            if isinstance(x, list | tuple):
                values[name] = [_array(item, type_, name) for item in cast(list[Any], x)]
                continue
            message = f"input {name!r} is a {type(x).__name__}, expected a list of arrays"
            problems.append(Diagnostic("input/array", f"{message}: {type_}"))
        elif x is None:
            message = f"input {name!r} is None, expected an array: {type_}"
            problems.append(Diagnostic("input/array", message))
        else:
            values[name] = _array(x, type_, name)
    if problems:
        raise NnefError(problems)
    return values


def returned_value(y: Any, type_: ValueType | None) -> Any:
    """A result of a model as a caller gets it."""
    if type_ is None or not type_.narrow or y is None:
        return y
    if isinstance(y, list):
        return [returned_value(item, type_) for item in cast(list[Any], y)]
    import ml_dtypes

    return y.view(getattr(ml_dtypes, type_.narrow))


def _array(x: Any, type_: ValueType, name: str) -> Array:
    """An array, or a list of numbers as an array of the item type that the model declares.

    Raises NnefError `input/array` for a list that is none, or whose items the type cannot hold.
    """
    if _is_text(type_):
        return _texts(x, name)
    wanted = _item_type(type_)
    if isinstance(x, list | tuple) and wanted is not None:
        return _bytes_of(_from_list(cast(Sequence[Any], x), wanted, name), type_)
    return _bytes_of(np.asarray(cast(Any, x)), type_)


def _texts(x: Any, name: str) -> Array:
    """An array of strings, or a list of them as an array; raises NnefError `input/array`."""
    array = np.asarray(x, object)
    if wrong := [each for each in array.reshape(-1).tolist() if not isinstance(each, str)]:
        message = f"input {name!r} holds strings, and {wrong[0]!r} is none"
        raise NnefError.of("input/array", message)
    return array


def _item_type(type_: ValueType) -> np.dtype[Any] | None:
    """The item type of the arrays of an input; None if NumPy has none, as for texts."""
    while type_.element:
        type_ = type_.element
    if type_.narrow or type_.items == "bfloat16":
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, type_.items))
    return np.dtype(type_.items) if type_.items else None


def _from_list(x: Sequence[Any], wanted: np.dtype[Any], name: str) -> Array:
    """The array of a list of numbers; integers of a real that is none are refused."""
    try:
        given = np.asarray(x)
        is_number = given.dtype.kind in "biuf" or given.dtype.name == wanted.name
        array = given.astype(wanted) if is_number else given
        kept = is_number and (wanted.kind not in "iu" or bool((array == given).all()))
    except (ValueError, TypeError, OverflowError) as error:
        raise _no_array(name, wanted, str(error)) from None
    if not kept:
        raise _no_array(name, wanted, f"it has items of type {given.dtype} with other values")
    return array


def _no_array(name: str, wanted: np.dtype[Any], why: str) -> NnefError:
    message = f"input {name!r} is a list that makes no array of {wanted}: {why}"
    return NnefError([Diagnostic("input/array", message)])


def _bytes_of(array: Array, type_: ValueType) -> Array:
    """An array as the model takes it: items of narrow types as bytes."""
    if type_.narrow and array.dtype.name == type_.narrow:
        return np.ascontiguousarray(array).reshape(array.shape).view(np.uint8)
    return array
