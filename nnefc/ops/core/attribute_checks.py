"""Checks of attributes and results in shape rules: signs, sizes, lengths, ranks, extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from nnefc.ops.core.spec import Call, NotKnown
from nnefc.ops.core.value_text import listing, literal
from nnefc.support.limits import Limits

T = TypeVar("T")

LARGEST = 2**31 - 1
"""Bound of extents, steps and paddings: positions computed from them cannot overflow 64 bits."""

MAX_RANK = Limits.rank
"""Largest rank: a tensor file has room for 8 extents (5.2)."""

MAX_RESULTS = Limits.operations
"""Most results of one operation (`copy_n`, `unstack`)."""


def attempt(read: Callable[[], T]) -> T | None:
    """The result of `read`, or None if it raises `NotKnown`.

    A rule that checks several attributes uses it so that an unknown one does not hide violations
    of the others.
    """
    try:
        return read()
    except NotKnown:
        return None


def positive(call: Call, name: str) -> tuple[int, ...]:
    """An attribute with a list of integers, which must be positive."""
    items: tuple[int, ...] = call[name]
    call.require(
        all(i > 0 for i in items), f"items in {name} must be positive: {name} = {listing(items)}"
    )
    return items


def positive_items(call: Call, name: str) -> tuple[int, ...] | None:
    """An attribute whose items must be positive and fit in 32 bits; None if it is not known."""
    items = attempt(lambda: positive(call, name))
    if items is not None:
        fits(call, name, items)
    return items


def fits(call: Call, name: str, items: Sequence[int]) -> None:
    """Require that steps and offsets fit in 32 bits."""
    call.require(
        all(abs(i) <= LARGEST for i in items),
        f"items in {name} must fit in 32 bits: {name} = {listing(items)}",
    )


def one_of(call: Call, name: str, allowed: Sequence[str]) -> None:
    """Require that a string attribute is one of the allowed values."""
    value = attempt(lambda: call[name])
    if value is not None:
        listed = ", ".join(map(literal, allowed))
        call.require(value in allowed, f"{name} must be one of {listed}: {name} = {literal(value)}")


def length(
    call: Call, name: str, items: Sequence[Any] | None, expected: int, of: str, *, optional: bool
) -> None:
    """Require that a list has `expected` items, or none if `optional`; `of` names the number."""
    if items is None or (optional and not items):
        return
    call.require(
        len(items) == expected,
        f"the length of {name} must equal {of}{' or 0' if optional else ''}: "
        f"{name} = {listing(items)} has {len(items)} items, expected {expected}",
    )


def rank_allowed(call: Call, rank: int, of: str = "output") -> bool:
    """Require that a result has at most `MAX_RANK` dimensions."""
    return call.require(
        rank <= MAX_RANK, f"the rank of {of} must be at most {MAX_RANK}: it is {rank}"
    )


def extents_allowed(call: Call, shape: Sequence[int], source: Sequence[int]) -> bool:
    """Require that a result is empty only in dimensions in which its source is empty."""
    return call.require(
        all(extent > 0 or extent == before == 0 for extent, before in zip(shape, source)),
        f"extents of output must be positive: output.shape = {listing(shape)}",
    )


def volume(extents: Iterable[int]) -> int:
    """Product of extents."""
    return math.prod(extents)
