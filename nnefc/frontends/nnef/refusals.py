"""Collect what a document cannot say, with the operations that it is about."""

from __future__ import annotations

from collections import Counter
from typing import Final

from nnefc.ir import Op
from nnefc.support.errors import Diagnostic, NnefError

_FARTHEST: Final = 8
"""Users of an operation without a name that are asked for one, one behind the other."""


class Refusals:
    """Reasons, each with the number of operations and the first one of them."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Op | None] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, rule: str, reason: str, op: Op | None = None) -> None:
        """Count a reason, for an operation unless the whole model is refused."""
        self._first.setdefault((rule, reason), op)
        self._counts[rule, reason] += 1

    def diagnostics(self) -> list[Diagnostic]:
        """An error for each reason, at the first operation."""
        return [
            _diagnostic(rule, reason, op, self._counts[rule, reason])
            for (rule, reason), op in self._first.items()
        ]

    def require_none(self) -> None:
        """Raise NnefError with all reasons."""
        if self._counts:
            raise NnefError(self.diagnostics())


def _diagnostic(rule: str, reason: str, op: Op | None, count: int) -> Diagnostic:
    name = name_of(op) if op is not None else ""
    message = f"'{name}': {reason}" if name else reason
    message += f" ({count:,} times)" if count > 1 else ""
    location = op.location if op is not None else None
    if location is None:
        return Diagnostic(rule, message)
    return Diagnostic(rule, message, location.place, chain=location.chain)


def name_of(op: Op) -> str:
    """The name of the first result of an operation that has one.

    An operation that is a step of another one has none; then that of the operations behind it.
    """
    for _ in range(_FARTHEST):
        names = [value.name for value in op.outputs if value.name]
        if names:
            return names[0]
        users = [user for value in op.outputs for user in value.users]
        if not users:
            return ""
        op = users[0]
    return ""
