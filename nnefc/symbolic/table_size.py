"""Bounds on the tables that functions of symbols compute, checked before memory is allocated.

The functions may come from a file, with any arguments.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Final

from nnefc.support.errors import NnefError

MAX_ITEMS: Final = 1 << 27
"""Items of a table; a plane of 32-bit offsets has at most a fraction of these."""
MAX_TOTAL: Final = 1 << 29
"""Items of all tables of a plan from a file."""
PYTHON_ITEM: Final = 16
"""The factor for items of Python lists, which take more memory and time."""


class TableTooLarge(NnefError, OverflowError):
    """A table has too many items.

    As an overflow it ends the evaluation of a plan's function, as if a guard failed: a plan for
    exactly these shapes may do without the table.
    """


_left: ContextVar[int | None] = ContextVar("left", default=None)


@contextmanager
def bounded_total() -> Generator[None]:
    """Within the block, all tables together have at most MAX_TOTAL items."""
    token = _left.set(MAX_TOTAL)
    try:
        yield
    finally:
        _left.reset(token)


def check_items(*extents: int) -> None:
    """Raise TableTooLarge `limit/memory` for too many items; `extents`: their factors."""
    items = prod(extents)
    left = _left.get()
    limit = MAX_ITEMS if left is None else min(left, MAX_ITEMS)
    if items > limit:
        raise TableTooLarge.of(
            "limit/memory",
            f"a plan needs a table of {items:,} items; at most {limit:,} are allowed",
        )
    if left is not None:
        _left.set(left - max(items, 0))
