"""Values of JSON, whose types are checked: they raise TypeError, KeyError or ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

Number = None | bool | int | float | str
"""A value that is no list and no object."""

_REALS: Final = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def union(value: Any) -> tuple[str, Any]:
    """The only key and the value of an object."""
    ((kind, found),) = json_object(value).items()
    return kind, found


def json_object(value: Any) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {type(value).__name__}")
    return cast("dict[str, Any]", value)


def json_list(value: Any) -> Sequence[Any]:
    """A list."""
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {type(value).__name__}")
    return cast("list[Any]", value)


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {type(value).__name__}")
    return value


def integer(value: Any) -> int:
    """An integer; booleans are none."""
    if type(value) is not int:
        raise TypeError(f"an integer is expected, not {type(value).__name__}")
    return value


def real(value: Any) -> float:
    """A real number, which may be a text such as `Infinity`."""
    if isinstance(value, str):
        return _REALS[value]
    if type(value) not in (int, float):
        raise TypeError(f"a number is expected, not {type(value).__name__}")
    return float(value)


def bound(value: Any) -> int | None:
    """A bound of a symbol; None where it is beyond int64."""
    return None if value is None or abs(integer(value)) >= 1 << 62 else value


def scalar(kind: str, value: Any) -> Number:
    """A number, a boolean or a text of a kind such as `as_int`."""
    match kind:
        case "as_int":
            return integer(value)
        case "as_float":
            return real(value)
        case "as_string":
            return text(value)
        case _:
            if not isinstance(value, bool):
                raise TypeError(f"a boolean is expected, not {type(value).__name__}")
            return value


def constant(kind: str, value: Any) -> Number:
    """The value of an input that is a constant."""
    return None if kind == "as_none" else scalar(kind, value)
