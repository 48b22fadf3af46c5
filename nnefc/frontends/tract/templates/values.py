"""What expressions of templates are: JSON values, functions, and what is not defined.

Numbers are 128-bit integers and doubles.  Everything whose size a template decides is accounted for
before it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.formats.files import printable
from nnefc.frontends.common.budget import Budget

_MOST_INTEGER: Final = 1 << 127
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class TemplateError(Exception):
    """What is wrong with a template; the line is known where it is caught."""


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """What has no value: false, empty, and nothing when it is printed."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """What can be called: `range`, a macro."""

    name: str
    call: Callable[..., Any]


class Namespace(dict[str, Any]):
    """An object whose attributes templates assign."""


def kind(value: Any) -> str:
    """What a value is, for messages."""
    match value:
        case UndefinedName():
            return f"undefined ('{printable(value.name)}')"
        case None:
            return "none"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a sequence"
        case dict():
            return "a mapping"
        case _:
            return "a function"


def is_true(value: Any) -> bool:
    return not isinstance(value, UndefinedName) and bool(value)


def text_of(value: Any, budget: Budget) -> str:
    """A value as it is printed: `true`, `1.0`, `[1, "a"]`."""
    if isinstance(value, str):
        return value
    pieces: list[str] = []
    _write(value, pieces, budget)
    return "".join(pieces)


def _write(value: Any, pieces: list[str], budget: Budget) -> None:
    budget.take_steps()
    match value:
        case UndefinedName():
            piece = ""
        case None:
            piece = "none"
        case bool():
            piece = "true" if value else "false"
        case int():
            piece = str(value)
        case float():
            piece = _digits(value)
        case str():
            piece = f'"{value.translate(_ESCAPES)}"'
        case list():
            for number, item in enumerate(listed(value)):
                pieces.append(", " if number else "[")
                _write(item, pieces, budget)
            piece = "]" if value else "[]"
        case dict():
            for number, (key, item) in enumerate(mapping(value).items()):
                pieces.append(", " if number else "{")
                _write(key, pieces, budget)
                pieces.append(": ")
                _write(item, pieces, budget)
            piece = "}" if value else "{}"
        case _:
            raise TemplateError(f"{kind(value)} cannot be printed")
    budget.take_items(2 + len(piece))
    pieces.append(piece)


def _digits(value: float) -> str:
    """The fewest digits that tell a number, never with an exponent: `0.00001`, `1.0`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return np.format_float_positional(value, unique=True, trim="0")


def listed(value: Any) -> list[Any]:
    """The items of a sequence: of a mapping its keys, of a string its characters."""
    match value:
        case list():
            return value  # pyright: ignore[reportUnknownVariableType]
        case str() | dict():
            return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case UndefinedName() | None:
            return []
        case _:
            raise TemplateError(f"{kind(value)} has no items")


def mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TemplateError(f"{kind(value)} is no mapping")
    return value  # pyright: ignore[reportUnknownVariableType]


def member(value: Any, key: Any) -> Any:
    """An attribute or item; undefined if there is none."""
    match value:
        case UndefinedName():
            raise TemplateError(f"'{printable(value.name)}' is undefined")
        case dict() if isinstance(key, str | int | float):
            return mapping(value).get(key, UndefinedName(f"{key}"))
        case str() if type(key) is int and -len(value) <= key < len(value):
            return value[key]
        case list() if type(key) is int and -len(listed(value)) <= key < len(listed(value)):
            return listed(value)[key]
        case _:
            return UndefinedName(f"{key}" if isinstance(key, str | int | float) else kind(key))


def equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether values are equal, also sequences and mappings."""
    budget.take_steps()
    if isinstance(left, list) and isinstance(right, list):
        ours, theirs = listed(left), listed(right)
        return len(ours) == len(theirs) and all(
            equal(a, b, budget) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        a, b = mapping(left), mapping(right)
        return a.keys() == b.keys() and all(equal(a[key], b[key], budget) for key in a)
    if isinstance(left, UndefinedName) or isinstance(right, UndefinedName):
        return isinstance(left, UndefinedName) and isinstance(right, UndefinedName)
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return False
    if isinstance(left, str) and isinstance(right, str):
        budget.take_items(min(len(left), len(right)))
    return bool(left == right)


def less(left: Any, right: Any, budget: Budget) -> bool:
    """Whether one number or string comes before another."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left < right
    if isinstance(left, str) and isinstance(right, str):
        budget.take_items(min(len(left), len(right)))
        return left < right
    raise TemplateError(f"{kind(left)} and {kind(right)} have no order")


def contains(container: Any, item: Any, budget: Budget) -> bool:
    if isinstance(container, str):
        budget.take_items(len(container))
        return isinstance(item, str) and item in container
    if isinstance(container, dict):
        return isinstance(item, str | int | float) and item in mapping(container)
    return any(equal(item, each, budget) for each in listed(container))


def arithmetic(operator: str, left: Any, right: Any, budget: Budget) -> Any:
    """`+ - * / // % **` of numbers; `+` of strings and sequences; `*` of one with an integer."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _of_numbers(operator, left, right)
    if isinstance(left, str | list):
        ours: Any = left if isinstance(left, str) else listed(left)
        if operator == "+" and isinstance(right, str if isinstance(left, str) else list):
            theirs: Any = right if isinstance(right, str) else listed(right)
            budget.take_items(len(ours) + len(theirs))
            return ours + theirs
        if operator == "*" and isinstance(right, int):
            budget.take_items(len(ours) * max(right, 0))
            return ours * right
    raise TemplateError(f"'{operator}' is not for {kind(left)} and {kind(right)}")


def _of_numbers(operator: str, left: float, right: float) -> float:
    """Remainders of integers are never negative, and quotients those that belong to them."""
    if operator in ("/", "//", "%") and right == 0:
        raise TemplateError(f"division by zero: {left} {operator} 0")
    whole = isinstance(left, int) and isinstance(right, int)
    try:
        match operator:
            case "+":
                return checked(left + right)
            case "-":
                return checked(left - right)
            case "*":
                return checked(left * right)
            case "/":
                return left / right
            case "//":
                return checked((left - left % abs(right)) // right) if whole else left // right
            case "%":
                return checked(left % abs(right)) if whole else math.fmod(left, right)
            case _:
                if whole and (right < 0 or (abs(left) > 1 and right > 127)):
                    raise OverflowError
                power = left**right
                if isinstance(power, complex):
                    raise TemplateError(f"{left} ** {right} is no real number")
                return checked(power)
    except (OverflowError, ZeroDivisionError):
        raise TemplateError(f"{left} {operator} {right} is too large, or no number") from None


def checked(number: float) -> float:
    """A number that has room in 128 bits; a logical becomes an integer."""
    if isinstance(number, int):
        if not -_MOST_INTEGER <= number < _MOST_INTEGER:
            raise OverflowError
        return int(number)
    return number
