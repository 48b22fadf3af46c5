"""Values that are made when they are first asked for, at most one of which is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """The place of a value.  It has no lock, which the child of a fork might find closed: threads
    that ask at the same time may all make one, and all get the first.
    """

    def __init__(self) -> None:
        self._made: dict[None, T] = {}

    def get(self, make: Callable[[], T]) -> T:
        """The value, from `make` if there is none yet."""
        made = self._made
        return made[None] if made else made.setdefault(None, make())
