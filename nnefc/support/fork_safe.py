"""Shared values and locks that stay usable in the child of a fork.

A fork copies the memory of a process, but only the thread that called it.  A lock that another
thread holds stays locked in the child forever.  Values are therefore computed without a lock, and
locks are replaced in the child.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is computed on first use, without a lock.

    Concurrent threads may each compute it; all get the first result.
    """

    def __init__(self) -> None:
        self._value: dict[None, T] = {}

    def get(self, make: Callable[[], T]) -> T:
        """The value, computed by `make` if it does not exist."""
        value = self._value
        return value[None] if value else value.setdefault(None, make())


class LockOwner(Protocol):
    """An object with a lock."""

    def renew_lock(self) -> None:
        """Replace the lock by a new one."""
        ...


_owners: weakref.WeakValueDictionary[int, LockOwner] = weakref.WeakValueDictionary()
"""Owners by address, since some are not hashable."""


def renew_after_fork(owner: LockOwner) -> None:
    """Call `owner.renew_lock` in the child of each fork, while `owner` is alive."""
    _owners[id(owner)] = owner


def _after_fork() -> None:
    for owner in list(_owners.values()):
        owner.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
