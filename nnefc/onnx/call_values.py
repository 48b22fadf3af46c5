"""Values of a call: arrays, lists of arrays for sequences, None for optionals without an element.

Models take and give narrow types, such as float8 and int4, as bytes; here they are arrays of
`ml_dtypes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from nnefc.formats.onnx.value_types import ValueType
from nnefc.support.errors import Diagnostic, NnefError

Array = np.ndarray[Any, Any]


def has_sequences(*types: Mapping[str, ValueType]) -> bool:
    """Whether inputs or outputs are sequences or optionals."""
    return any(each.form in ("seq", "optional") for every in types for each in every.values())


def given_values(
    named: Mapping[str, Any], types: Mapping[str, ValueType]
) -> dict[str, Array | list[Array] | None]:
    """Values of a call as the model takes them.

    Raises NnefError `input/array` for a list or None where the type of the input has none, or an
    array where it is a sequence.
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
                values[name] = [_array(item, type_) for item in cast(list[Any], x)]
                continue
            message = f"input {name!r} is a {type(x).__name__}, expected a list of arrays"
            problems.append(Diagnostic("input/array", f"{message}: {type_}"))
        elif x is None:
            message = f"input {name!r} is None, expected an array: {type_}"
            problems.append(Diagnostic("input/array", message))
        else:
            values[name] = _array(x, type_)
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


def _array(x: Any, type_: ValueType) -> Array:
    array = np.asarray(x)
    if type_.narrow and array.dtype.name == type_.narrow:
        return np.ascontiguousarray(array).reshape(array.shape).view(np.uint8)
    return array
