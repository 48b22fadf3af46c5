"""Captured values of straight-line programs as data: functions, classes and constants.

A function or a class is written as `module:name`.  Reading accepts a function that is marked by
`traceable`, a dataclass or an enumeration of this package, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from types import FunctionType
from typing import Any, Final, TypeVar, cast

_NAME: Final = re.compile(r"(nnefc\.(?:ir|ops|program\.tables|passes)(?:\.\w+)+):(\w+)", re.ASCII)
_MARK: Final = "_is_traceable"

F = TypeVar("F", bound=Callable[..., Any])


def traceable(function: F) -> F:
    """Mark a function of a module as one that programs in files may call.

    It computes tables or numbers from its arguments and has no other effect.
    """
    setattr(function, _MARK, True)
    return function


def is_traceable(function: Any) -> bool:
    """Whether `traceable` has marked a function."""
    return isinstance(function, FunctionType) and getattr(function, _MARK, False) is True


def to_data(value: Any) -> Any:
    """A captured value as JSON data; raises ValueError for one that cannot be written."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return ["tuple", *map(to_data, cast("tuple[Any, ...]", value))]
    if isinstance(value, Enum):
        return ["enum", _name_of(type(value)), value.value]
    if is_dataclass(value) and not isinstance(value, type):
        items = [to_data(getattr(value, field.name)) for field in fields(value) if field.init]
        return ["dataclass", _name_of(type(value)), *items]
    return ["name", _name_of(value)]


def from_data(data: Any, depth: int = 16) -> Any:
    """The captured value in JSON data; raises ValueError for anything else."""
    if data is None or type(data) in (bool, int, float, str):
        return data
    try:
        kind, *items = cast(Sequence[Any], data)
        if depth and kind == "tuple":
            return tuple(from_data(each, depth - 1) for each in items)
        if depth and kind == "dataclass" and is_dataclass(make := _resolve(items[0])):
            return cast(Any, make)(*(from_data(each, depth - 1) for each in items[1:]))
        if kind == "name" and not _is_enum(value := _resolve(*items)):
            return value
        if kind == "enum" and _is_enum(make := _resolve(items[0])):
            return make(*items[1:])
    except (TypeError, IndexError, ValueError, ArithmeticError) as error:
        raise ValueError(f"no captured value: {error}") from None
    raise ValueError(f"no captured value: {data}")


def _name_of(value: Any) -> str:
    name = f"{value.__module__}:{value.__qualname__}" if hasattr(value, "__qualname__") else ""
    try:
        if _resolve(name) is value:
            return name
    except ValueError:
        pass
    raise ValueError(f"{value!r} cannot be written to a file")


def _resolve(name: Any) -> Any:
    """The function or class with a name."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    value: Any = None
    if match is not None:
        with suppress(ImportError):
            value = getattr(import_module(match[1]), match[2], None)
    if is_traceable(value) or _is_enum(value) or _is_dataclass(value):
        return value
    raise ValueError(f"no function or class for programs in files: {name!r}")


def _is_dataclass(value: Any) -> bool:
    return isinstance(value, type) and is_dataclass(value)


def _is_enum(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Enum)
