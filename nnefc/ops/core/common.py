"""Checks of axes, lengths and ranks, broadcasting and text of values, for shape rules."""

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
"""Bound of extents, steps and paddings: positions computed from them cannot overflow 64 bits."""

MAX_RANK = Limits.rank
"""Largest rank: a tensor file has room for 8 extents (5.2)."""

MAX_RESULTS = Limits.operations
"""Most results of one operation (`copy_n`, `unstack`)."""


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
    """The shape that operands broadcast to (4.2.2), aligned at dimension 0."""
    shapes = {name: call.shape(name) for name in operands}
    return broadcast_shapes(call, shapes)


def broadcast_shapes(call: Call, shapes: dict[str, Shape]) -> Shape:
    """The shape that named shapes broadcast to; records a problem if they do not."""
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
    """`a, b and c`; empty for no names."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def axes_attribute(call: Call, name: str = "axes") -> tuple[int, ...]:
    """An attribute with a list of axes, which must be unique and non-negative."""
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
    """Require that axes are less than the rank of a tensor; returns whether they are."""
    return call.require(
        all(a < rank for a in axes),
        f"items in {name} must be less than the rank of {of}: {name} = {listing(axes)}, "
        f"rank {rank}",
    )


def axis_attribute(call: Call, name: str = "axis") -> int:
    """An attribute with one axis, which must be non-negative."""
    axis: int = call[name]
    call.require(axis >= 0, f"{name} must be non-negative: {name} = {axis}")
    return axis


def axis_within(call: Call, axis: int, rank: int, of: str = "input", name: str = "axis") -> bool:
    """Require that an axis is less than the rank of a tensor; returns whether it is."""
    return call.require(
        axis < rank, f"{name} must be less than the rank of {of}: {name} = {axis}, rank {rank}"
    )


def positive(call: Call, name: str) -> tuple[int, ...]:
    """An attribute with a list of integers, which must be positive."""
    items: tuple[int, ...] = call[name]
    call.require(
        all(i > 0 for i in items), f"items in {name} must be positive: {name} = {listing(items)}"
    )
    return items


def attempt(read: Callable[[], T]) -> T | None:
    """The result of `read`, or None if it raises `NotKnown`.

    A rule that checks several attributes uses it so that an unknown one does not hide violations
    of the others.
    """
    try:
        return read()
    except NotKnown:
        return None


def one_of(call: Call, name: str, allowed: Sequence[str]) -> None:
    """Require that a string attribute is one of the allowed values."""
    value = attempt(lambda: call[name])
    if value is not None:
        listed = ", ".join(map(literal, allowed))
        call.require(value in allowed, f"{name} must be one of {listed}: {name} = {literal(value)}")


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


def same(operand: str) -> Callable[[Call], TensorType]:
    """The shape rule of operations whose result has the type and shape of `operand`."""

    def rule(call: Call) -> TensorType:
        return TensorType(call.dtype(operand), call.shape(operand))

    return rule


def broadcasting(*operands: str, dtype: DType | None = None) -> Callable[[Call], TensorType]:
    """The shape rule of operations that broadcast their operands.

    The result has the item type `dtype`, or that of the last operand.
    """

    def rule(call: Call) -> TensorType:
        return TensorType(dtype or call.dtype(operands[-1]), broadcast(call, *operands))

    return rule


# -- references


def align(*arrays: Array) -> list[Array]:
    """The arrays with trailing singular dimensions added: NumPy then broadcasts as NNEF does."""
    rank = max(a.ndim for a in arrays)
    return [a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in arrays]


def aligned(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function`, applied to arrays that `align` has prepared for broadcasting."""

    def reference(*arrays: Array) -> Array:
        return np.asarray(function(*align(*arrays)))

    return reference


class WrongIndex(LookupError):
    """An index is out of range; raised by references, which know no names."""

    def __init__(self, indices: Array, position: int, valid: tuple[int, int]) -> None:
        """`position` in `indices`, an operand or a slice of it; `valid`: lowest index, extent."""
        self.indices = indices
        self.position = position
        self.valid = valid
        self.value = int(indices.reshape(-1)[position])
        super().__init__(f"index {self.value} is not in the range {valid[0]} to {valid[1] - 1}")


def within(indices: Array, extent: Any, *, counts_from_end: bool = True) -> Array:
    """Indices in the range 0 to `extent` - 1; raises WrongIndex for the first out of range.

    Negative indices count from the end, if `counts_from_end`.  `extent` may be an array of extents,
    one for each item along the last dimension.
    """
    extents = np.broadcast_to(extent, indices.shape)
    lowest = -extents if counts_from_end else np.zeros_like(extents)
    wrong = np.flatnonzero((indices < lowest) | (indices >= extents))
    if wrong.size:
        first = int(wrong[0])
        valid = int(lowest.reshape(-1)[first]), int(extents.reshape(-1)[first])
        raise WrongIndex(indices, first, valid)
    return np.where(indices < 0, indices + extents, indices)


def volume(extents: Iterable[int]) -> int:
    """Product of extents."""
    return math.prod(extents)


def sequence(value: Any) -> list[Any] | None:
    """The items of a list or tuple; None for any other value."""
    return list(value) if isinstance(value, list | tuple) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
