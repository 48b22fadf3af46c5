"""Filters and tests of templates: those of minijinja on numbers, text and sequences.

A filter takes the budget, the value on the left of the bar, and its arguments; a test likewise.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any, Final

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.tract.templates.values import (
    Function,
    TemplateError,
    UndefinedName,
    arithmetic,
    check_integer_range,
    contains,
    equal,
    is_true,
    items_of,
    less,
    mapping,
    member,
    text_of,
    type_name,
)

_MOST_DIGITS: Final = 400


def _number(value: Any) -> float:
    """`value` if it is a number; raises TemplateError."""
    if not isinstance(value, int | float):
        raise TemplateError(f"{type_name(value)} is not a number")
    return value


def _string(value: Any) -> str:
    """`value` if it is a string; raises TemplateError."""
    if not isinstance(value, str):
        raise TemplateError(f"{type_name(value)} is not a string")
    return value


def _sequence(budget: Budget, value: Any) -> list[Any]:
    """A new list of the items of a value."""
    items = items_of(value)
    budget.take_items(len(items))
    return list(items)


def _parsed(value: Any, kind_: type[float]) -> Any:
    """A number from a number or a string of digits."""
    if isinstance(value, str):
        if len(value) > _MOST_DIGITS:
            raise TemplateError(f"a string of {len(value)} characters is not a number")
        return kind_(value)
    return kind_(_number(value))


def _default(budget: Budget, value: Any, other: Any = "", boolean: Any = False) -> Any:
    missing = isinstance(value, UndefinedName) or (is_true(boolean) and not is_true(value))
    return other if missing else value


def _join(budget: Budget, value: Any, between: str = "") -> str:
    pieces = [text_of(item, budget) for item in items_of(value)]
    budget.take_items(sum(map(len, pieces)) + len(_string(between)) * len(pieces))
    return between.join(pieces)


def _replace(budget: Budget, value: Any, old: str, new: str) -> str:
    text = _string(value)
    budget.take_items(len(text) + text.count(_string(old)) * len(_string(new)))
    return text.replace(old, new)


def _round(budget: Budget, value: Any, precision: int = 0) -> float:
    """A number rounded to `precision` decimals, halves away from zero."""
    number = _number(value)
    if isinstance(number, int):
        return number
    scale = 10.0 ** max(-300, min(300, precision))
    scaled = abs(number) * scale
    return math.copysign(math.floor(scaled + 0.5) / scale, number)


def _sort(budget: Budget, value: Any, reverse: Any = False, attribute: str = "") -> list[Any]:
    """The items in order, or by an attribute; strings are compared without case."""

    def key(item: Any) -> Any:
        value = member(item, attribute) if attribute else item
        return value.lower() if isinstance(value, str) else value

    def order(a: Any, b: Any) -> int:
        budget.take_steps()
        return less(key(b), key(a), budget) - less(key(a), key(b), budget)

    return sorted(
        _sequence(budget, value), key=functools.cmp_to_key(order), reverse=is_true(reverse)
    )


def _extreme(budget: Budget, value: Any, largest: bool) -> Any:
    """The largest or the smallest item; undefined if there are none."""
    items = _sequence(budget, value)
    if not items:
        return UndefinedName("max of no items" if largest else "min of no items")
    best = items[0]
    for item in items[1:]:
        if less(best, item, budget) if largest else less(item, best, budget):
            best = item
    return best


def _sum(budget: Budget, value: Any) -> Any:
    total: Any = 0
    for item in _sequence(budget, value):
        total = arithmetic("+", total, item, budget)
    return total


def _unique(budget: Budget, value: Any) -> list[Any]:
    unique: list[Any] = []
    for item in _sequence(budget, value):
        if not contains(unique, item, budget):
            unique.append(item)
    return unique


def _map(budget: Budget, value: Any, *names: str, attribute: str = "") -> list[Any]:
    """An attribute of each item, or a filter applied to it."""
    items = _sequence(budget, value)
    if attribute:
        return [member(item, attribute) for item in items]
    if not names:
        raise TemplateError("'map' needs a filter or an attribute")
    return [apply_filter(names[0], budget, item, list(names[1:]), {}) for item in items]


def _tojson(budget: Budget, value: Any) -> str:
    budget.take_items(2 * len(text_of(value, budget)))
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise TemplateError(f"{type_name(value)} cannot be written as JSON: {error}") from None


def _length(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)  # pyright: ignore[reportUnknownArgumentType]
    raise TemplateError(f"{type_name(value)} has no length")


def _items(budget: Budget, value: Any) -> list[Any]:
    """Pairs of keys and values."""
    budget.take_items(3 * len(mapping(value)))
    return [list(pair) for pair in mapping(value).items()]


def _text(budget: Budget, value: Any) -> str:
    """A value as text, charged three times: letters may have upper cases of three characters."""
    text = text_of(value, budget)
    budget.take_items(3 * len(text))
    return text


def _item_at(budget: Budget, value: Any, at: int) -> Any:
    """The item at an index of a sequence; undefined if it is empty."""
    items = _sequence(budget, value)
    return items[at] if items else UndefinedName("item of an empty sequence")


_OF_VALUES: Final[dict[str, Callable[[Budget, Any], Any]]] = {
    "abs": lambda budget, value: check_integer_range(abs(_number(value))),
    "bool": lambda budget, value: is_true(value),
    "count": lambda budget, value: _length(value),
    "first": lambda budget, value: _item_at(budget, value, 0),
    "float": lambda budget, value: _parsed(value, float),
    "int": lambda budget, value: check_integer_range(_parsed(value, int)),
    "items": lambda budget, value: _items(budget, value),
    "last": lambda budget, value: _item_at(budget, value, -1),
    "length": lambda budget, value: _length(value),
    "list": lambda budget, value: _sequence(budget, value),
    "lower": lambda budget, value: _text(budget, value).lower(),
    "max": lambda budget, value: _extreme(budget, value, True),
    "min": lambda budget, value: _extreme(budget, value, False),
    "reverse": lambda budget, value: (
        _text(budget, value) if isinstance(value, str) else _sequence(budget, value)
    )[::-1],
    "string": lambda budget, value: text_of(value, budget),
    "sum": lambda budget, value: _sum(budget, value),
    "tojson": lambda budget, value: _tojson(budget, value),
    "trim": lambda budget, value: _text(budget, value).strip(),
    "unique": lambda budget, value: _unique(budget, value),
    "upper": lambda budget, value: _text(budget, value).upper(),
}
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    **_OF_VALUES,
    "d": _default,
    "default": _default,
    "join": _join,
    "map": _map,
    "replace": _replace,
    "round": _round,
    "sort": _sort,
}
_TESTS_OF_VALUES: Final[dict[str, Callable[[Budget, Any], bool]]] = {
    "boolean": lambda budget, value: isinstance(value, bool),
    "defined": lambda budget, value: not isinstance(value, UndefinedName),
    "even": lambda budget, value: arithmetic("%", value, 2, budget) == 0,
    "false": lambda budget, value: value is False,
    "float": lambda budget, value: isinstance(value, float),
    "integer": lambda budget, value: type(value) is int,
    "iterable": lambda budget, value: isinstance(value, str | list | dict),
    "mapping": lambda budget, value: isinstance(value, dict),
    "none": lambda budget, value: value is None,
    "number": lambda budget, value: isinstance(value, int | float) and not isinstance(value, bool),
    "odd": lambda budget, value: arithmetic("%", value, 2, budget) == 1,
    "sequence": lambda budget, value: isinstance(value, list),
    "string": lambda budget, value: isinstance(value, str),
    "true": lambda budget, value: value is True,
    "undefined": lambda budget, value: isinstance(value, UndefinedName),
}
_TESTS_OF_TWO: Final[dict[str, Callable[[Budget, Any, Any], bool]]] = {
    "divisibleby": lambda budget, value, by: arithmetic("%", value, by, budget) == 0,
    "eq": lambda budget, value, other: equal(value, other, budget),
    "equalto": lambda budget, value, other: equal(value, other, budget),
    "ge": lambda budget, value, other: not less(value, other, budget),
    "gt": lambda budget, value, other: less(other, value, budget),
    "in": lambda budget, value, other: contains(other, value, budget),
    "le": lambda budget, value, other: not less(other, value, budget),
    "lt": lambda budget, value, other: less(value, other, budget),
    "ne": lambda budget, value, other: not equal(value, other, budget),
}
TESTS: Final[dict[str, Callable[..., bool]]] = {**_TESTS_OF_VALUES, **_TESTS_OF_TWO}


def apply_filter(
    name: str, budget: Budget, value: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """The result of a filter; raises TemplateError if it is unknown or fails."""
    return _applied("filter", FILTERS, name, budget, [value, *arguments], named)


def apply_test(
    name: str, budget: Budget, value: Any, arguments: list[Any], named: dict[str, Any]
) -> bool:
    """The result of a test, `value is name(...)`; raises TemplateError."""
    return _applied("test", TESTS, name, budget, [value, *arguments], named)


def _applied(
    what: str,
    known: dict[str, Callable[..., Any]],
    name: str,
    budget: Budget,
    arguments: list[Any],
    named: dict[str, Any],
) -> Any:
    if name not in known:
        raise TemplateError(f"unknown {what} '{name}'; the known ones are {', '.join(known)}")
    return call_function(Function(name, functools.partial(known[name], budget)), arguments, named)


def call_function(function: Function, arguments: list[Any], named: dict[str, Any]) -> Any:
    """The result of a call; raises TemplateError if the arguments do not fit."""
    try:
        return function.call(*arguments, **named)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        reason = str(error).rpartition("() ")[2] or "its arguments do not fit"
        raise TemplateError(f"'{function.name}' fails: {reason}") from None
