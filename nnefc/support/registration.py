"""Conflicts in tables that modules fill while they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_taken(registered: Callable[..., Any] | None, function: Callable[..., Any]) -> bool:
    """Whether an entry is taken by a function other than `function`.

    A module that is imported again after an interrupted import registers the same functions.
    """
    if registered is None:
        return False
    before = registered.__module__, registered.__qualname__
    return before != (function.__module__, function.__qualname__)
