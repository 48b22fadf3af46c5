"""Locks in the child of a fork: threads that held them are not there."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class _Renewed(Protocol):
    def renew_lock(self) -> None:
        """Forget who holds the lock."""
        ...


_alive: weakref.WeakValueDictionary[int, _Renewed] = weakref.WeakValueDictionary()
"""By address: mappings have no hash."""


def renew_after_fork(owner: _Renewed) -> None:
    """Let the lock of an object be a new one in the child of each fork, as long as there is one."""
    _alive[id(owner)] = owner


def _after_fork() -> None:
    for each in list(_alive.values()):
        each.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
