"""Helpers for the rules and references of many operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from nnefc.ir import DType, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Call, NotKnown
from nnefc.support.limits import Limits

T = TypeVar("T")

LARGEST = 2**31 - 1
"""Extents, steps and paddings fit in 32 bits, so that positions cannot overflow 64."""

MAX_RANK = Limits.rank
"""A tensor file has room for 8 extents (5.2)."""

MAX_RESULTS = Limits.operations
"""Tensors that one operation may give (`copy_n`, `unstack`)."""


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


# -- rules


def broadcast(call: Call, *operands: str) -> Shape:
    """The common shape of operands under broadcasting (4.2.2), which aligns at dimension 0."""
    shapes = {name: call.shape(name) for name in operands}
    return broadcast_shapes(call, shapes)


def broadcast_shapes(call: Call, shapes: dict[str, Shape]) -> Shape:
    """The common shape of shapes that are known by name."""
    first, *others = shapes.values() or [()]
    if all(shape == first for shape in others):
        return first
    rank = max(map(len, shapes.values()))
    result: list[int] = []
    for dimension in range(rank):
        extents = [s[dimension] for s in shapes.values() if dimension < len(s)]
        common = next((extent for extent in extents if extent != 1), 1)
        if any(extent not in (1, common) for extent in extents):
            named = ", ".join(f"{name}.shape = {listing(s)}" for name, s in shapes.items())
            call.require(
                False,
                f"extents of {enumeration(shapes)} must be equal or singular: "
                f"{named} differ in dimension {dimension}",
            )
        result.append(common)
    return tuple(result)


def enumeration(names: Iterable[str]) -> str:
    """`a, b and c`; nothing for no names."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def axes_attribute(call: Call, name: str = "axes") -> tuple[int, ...]:
    """The list of axes, whose items must be unique and non-negative."""
    axes: tuple[int, ...] = call[name]
    call.require(
        all(a >= 0 for a in axes), f"items in {name} must be non-negative: {name} = {listing(axes)}"
    )
    call.require(
        len(set(axes)) == len(axes), f"items in {name} must be unique: {name} = {listing(axes)}"
    )
    return axes


def axes_within(
    call: Call, axes: Sequence[int], rank: int, of: str = "input", name: str = "axes"
) -> bool:
    """Require that axes are less than the rank of a tensor; says whether they are."""
    return call.require(
        all(a < rank for a in axes),
        f"items in {name} must be less than the rank of {of}: {name} = {listing(axes)}, "
        f"rank {rank}",
    )


def axis_attribute(call: Call, name: str = "axis") -> int:
    """A single axis, which must be non-negative."""
    axis: int = call[name]
    call.require(axis >= 0, f"{name} must be non-negative: {name} = {axis}")
    return axis


def axis_within(call: Call, axis: int, rank: int, of: str = "input", name: str = "axis") -> bool:
    """Require that an axis is less than the rank of a tensor; says whether it is."""
    return call.require(
        axis < rank, f"{name} must be less than the rank of {of}: {name} = {axis}, rank {rank}"
    )


def positive(call: Call, name: str) -> tuple[int, ...]:
    """A list of integers, all of which must be strictly positive."""
    items: tuple[int, ...] = call[name]
    call.require(
        all(i > 0 for i in items), f"items in {name} must be positive: {name} = {listing(items)}"
    )
    return items


def attempt(read: Callable[[], T]) -> T | None:
    """What `read` gives, or None if it needs something that is not known.

    For rules of several attributes: one that is not known hides no violation of the others.
    """
    try:
        return read()
    except NotKnown:
        return None


def one_of(call: Call, name: str, allowed: Sequence[str]) -> None:
    """Require that a string attribute is one of those allowed."""
    value = attempt(lambda: call[name])
    if value is not None:
        listed = ", ".join(map(literal, allowed))
        call.require(value in allowed, f"{name} must be one of {listed}: {name} = {literal(value)}")


def positive_items(call: Call, name: str) -> tuple[int, ...] | None:
    """A list whose items must be positive and fit in 32 bits; None if it is not known."""
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


def length(
    call: Call, name: str, items: Sequence[Any] | None, expected: int, of: str, *, optional: bool
) -> None:
    """Require that a list has `expected` items, the number of `of`, or (`optional`) none."""
    if items is None or (optional and not items):
        return
    call.require(
        len(items) == expected,
        f"the length of {name} must equal {of}{' or 0' if optional else ''}: "
        f"{name} = {listing(items)} has {len(items)} items, expected {expected}",
    )


def rank_allowed(call: Call, rank: int, of: str = "output") -> bool:
    """Require that a result can be stored."""
    return call.require(
        rank <= MAX_RANK, f"the rank of {of} must be at most {MAX_RANK}: it is {rank}"
    )


def extents_allowed(call: Call, shape: Sequence[int], source: Sequence[int]) -> bool:
    """Require that a result is not empty in a dimension in which its source is not."""
    return call.require(
        all(extent > 0 or extent == before == 0 for extent, before in zip(shape, source)),
        f"extents of output must be positive: output.shape = {listing(shape)}",
    )


def same(operand: str) -> Callable[[Call], TensorType]:
    """The rule of operations whose result has the type and shape of an operand."""

    def rule(call: Call) -> TensorType:
        return TensorType(call.dtype(operand), call.shape(operand))

    return rule


def broadcasting(*operands: str, dtype: DType | None = None) -> Callable[[Call], TensorType]:
    """The rule of operations that broadcast their operands.

    The result has the item type `dtype`, or that of the last operand.
    """

    def rule(call: Call) -> TensorType:
        return TensorType(dtype or call.dtype(operands[-1]), broadcast(call, *operands))

    return rule


# -- references


def align(*arrays: Array) -> list[Array]:
    """The arrays with trailing singular dimensions, so that NumPy broadcasts as NNEF does."""
    rank = max(a.ndim for a in arrays)
    return [a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in arrays]


def aligned(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function` of arrays that NumPy broadcasts as NNEF does."""

    def reference(*arrays: Array) -> Array:
        return np.asarray(function(*align(*arrays)))

    return reference


def within(indices: Array, extent: int) -> Array:
    """Indices along `extent` items.

    Negative ones count from the end; what is still out of range is moved to the nearest end, so
    that no data can make a program read or write outside its memory.
    """
    return np.clip(np.where(indices < 0, indices + extent, indices), 0, extent - 1)


def volume(extents: Iterable[int]) -> int:
    """Product of extents."""
    return math.prod(extents)


def sequence(value: Any) -> list[Any] | None:
    """The items of a list or tuple; None of anything else."""
    return list(value) if isinstance(value, list | tuple) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
