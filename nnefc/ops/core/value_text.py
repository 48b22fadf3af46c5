"""Text of values in messages, as NNEF writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def listing(items: Iterable[Any]) -> str:
    """Items as NNEF writes them: `[1,2]`."""
    return f"[{','.join(map(literal, items))}]"


def literal(value: Any) -> str:
    """A value as NNEF writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{value}'"
        case tuple():
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            return f"({','.join(map(literal, items))})"
        case _:
            return str(value)


def enumeration(names: Iterable[str]) -> str:
    """`a, b and c`; empty for no names."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
