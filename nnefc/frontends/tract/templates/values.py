"""Values of template expressions: JSON values, functions and undefined names.

Numbers are 128-bit integers and float64.  A value whose size the template determines is charged to
the budget before it is created.
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
    """An error in a template; the handler adds the line."""


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """The value of an undefined name: false, without items, printed as nothing."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A callable value: `range` or a macro."""

    name: str
    call: Callable[..., Any]


class Namespace(dict[str, Any]):
    """A `namespace()`, whose attributes a template can assign."""


def type_name(value: Any) -> str:
    """The type of a value, for messages."""
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
    """The truth of a value, as in Python; undefined is false."""
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
            for number, item in enumerate(items_of(value)):
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
            raise TemplateError(f"{type_name(value)} cannot be printed")
    budget.take_items(2 + len(piece))
    pieces.append(piece)


def _digits(value: float) -> str:
    """The shortest digits that round-trip, without exponent: `0.00001`, `1.0`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return np.format_float_positional(value, unique=True, trim="0")


def items_of(value: Any) -> list[Any]:
    """The items of a sequence, the keys of a mapping, or the characters of a string."""
    match value:
        case list():
            return value  # pyright: ignore[reportUnknownVariableType]
        case str() | dict():
            return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case UndefinedName() | None:
            return []
        case _:
            raise TemplateError(f"{type_name(value)} has no items")


def mapping(value: Any) -> dict[Any, Any]:
    """`value` if it is a mapping; raises TemplateError."""
    if not isinstance(value, dict):
        raise TemplateError(f"{type_name(value)} is not a mapping")
    return value  # pyright: ignore[reportUnknownVariableType]


def member(value: Any, key: Any) -> Any:
    """The attribute or item `key` of a value; undefined if it does not exist."""
    match value:
        case UndefinedName():
            raise TemplateError(f"'{printable(value.name)}' is undefined")
        case dict() if isinstance(key, str | int | float):
            return mapping(value).get(key, UndefinedName(f"{key}"))
        case str() if type(key) is int and -len(value) <= key < len(value):
            return value[key]
        case list() if type(key) is int and -len(items_of(value)) <= key < len(items_of(value)):
            return items_of(value)[key]
        case _:
            return UndefinedName(f"{key}" if isinstance(key, str | int | float) else type_name(key))


def equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether two values are equal; sequences and mappings are compared item by item."""
    budget.take_steps()
    if isinstance(left, list) and isinstance(right, list):
        ours, theirs = items_of(left), items_of(right)
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
    raise TemplateError(f"{type_name(left)} and {type_name(right)} cannot be ordered")


def contains(container: Any, item: Any, budget: Budget) -> bool:
    """Whether a string, mapping or sequence contains an item."""
    if isinstance(container, str):
        budget.take_items(len(container))
        return isinstance(item, str) and item in container
    if isinstance(container, dict):
        return isinstance(item, str | int | float) and item in mapping(container)
    return any(equal(item, each, budget) for each in items_of(container))


def arithmetic(operator: str, left: Any, right: Any, budget: Budget) -> Any:
    """`+ - * / // % **` of numbers; `+` of strings and sequences; `*` of one with an integer."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _number_arithmetic(operator, left, right)
    if isinstance(left, str | list):
        ours: Any = left if isinstance(left, str) else items_of(left)
        if operator == "+" and isinstance(right, str if isinstance(left, str) else list):
            theirs: Any = right if isinstance(right, str) else items_of(right)
            budget.take_items(len(ours) + len(theirs))
            return ours + theirs
        if operator == "*" and isinstance(right, int):
            budget.take_items(len(ours) * max(right, 0))
            return ours * right
    message = f"'{operator}' is not defined for {type_name(left)} and {type_name(right)}"
    raise TemplateError(message)


def _number_arithmetic(operator: str, left: float, right: float) -> float:
    """Arithmetic on two numbers; a remainder of integers is never negative, as in minijinja."""
    if operator in ("/", "//", "%") and right == 0:
        raise TemplateError(f"division by zero: {left} {operator} 0")
    whole = isinstance(left, int) and isinstance(right, int)
    try:
        match operator:
            case "+":
                return check_integer_range(left + right)
            case "-":
                return check_integer_range(left - right)
            case "*":
                return check_integer_range(left * right)
            case "/":
                return left / right
            case "//":
                return (
                    check_integer_range((left - left % abs(right)) // right)
                    if whole
                    else left // right
                )
            case "%":
                return check_integer_range(left % abs(right)) if whole else math.fmod(left, right)
            case _:
                if whole and (right < 0 or (abs(left) > 1 and right > 127)):
                    raise OverflowError
                power = left**right
                if isinstance(power, complex):
                    raise TemplateError(f"{left} ** {right} is not a real number")
                return check_integer_range(power)
    except (OverflowError, ZeroDivisionError):
        raise TemplateError(f"{left} {operator} {right} is too large or undefined") from None


def check_integer_range(number: float) -> float:
    """A number, a boolean as an integer; raises OverflowError for more than 128 bits."""
    if isinstance(number, int):
        if not -_MOST_INTEGER <= number < _MOST_INTEGER:
            raise OverflowError
        return int(number)
    return number
