"""What all objects of a context have in common."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from nnefc.options.arguments import abbreviated
from nnefc.support.errors import NnefError

T = TypeVar("T")


class Reference:
    """An object that a method of a context or of a graph made; it is neither pickled nor copied."""

    _internal = frozenset({"check_scope", "info", "layer"})

    def __reduce__(self) -> Any:
        name = type(self).__name__
        hint = "pickle the arrays of tensors (copy_to), and build the graph again"
        raise NnefError.of("openvx/argument", f"a {name} cannot be pickled or copied", hint=hint)


def require_made(value: object, kind: type[T], what: str, by: str) -> T:
    """The argument of a constructor that only methods call; raises NnefError for another one."""
    if not isinstance(value, kind):
        message = f"a {what} is created by {by}, not from {abbreviated(value)}"
        raise NnefError.of("openvx/argument", message)
    return value


def refuse(parameter: str, value: object, expected: str) -> NoReturn:
    """Raise NnefError for an argument of another type."""
    message = f"{parameter} = {abbreviated(value)} is no {expected}"
    raise NnefError.of("openvx/argument", message)
