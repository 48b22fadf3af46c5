"""Affine maps with constant factors and terms, matched as chains of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.ir import Graph, Op, Shape, Value
from nnefc.ops.tools.table import traits_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import only_user

Array = np.ndarray[Any, Any]

CANCELLED: Final = 2.0**-10
"""A sum this much smaller than its terms leaves out a rounding that a model may be made for."""
_LARGE: Final = 2.0**20
"""Terms from this size on are compared one by one, smaller ones by their largest items."""


@dataclass(frozen=True, eq=False)
class Affine:
    """The map x -> scale * x + shift.

    Both are float64 arrays of the rank of x; their extents are those of x or 1.
    """

    scale: Array
    shift: Array

    @classmethod
    def identity(cls, rank: int) -> Affine:
        """The map x -> x."""
        return cls(np.ones((1,) * rank), np.zeros((1,) * rank))

    def then(self, after: Affine) -> Affine:
        """The map that applies this one, then `after`."""
        return Affine(after.scale * self.scale, after.scale * self.shift + after.shift)

    def factor_and_term(self) -> tuple[Affine, Affine]:
        """(map by the factor, map by the term): applied in this order they equal this map."""
        one = self.identity(self.scale.ndim)
        return Affine(self.scale, one.shift), Affine(one.scale, self.shift)

    @property
    def is_identity(self) -> bool:
        return not self.scales and not self.shifts

    @property
    def scales(self) -> bool:
        """Whether any factor is not 1."""
        return bool((self.scale != 1).any())

    @property
    def shifts(self) -> bool:
        """Whether any term is not 0."""
        return bool((self.shift != 0).any())


def cancels(first: Array, second: Array) -> bool:
    """Whether x + (first + second) leaves out the rounding of (x + first) + second.

    (x + c) - c rounds x to multiples of the last bit of c: with c = 3 * 2^22 to whole numbers.
    Single items of smaller terms may cancel, as biases and means of channels do.
    """
    size, total = np.maximum(np.abs(first), np.abs(second)), np.abs(first + second)
    is_small = (total < CANCELLED * size) & (size >= _LARGE)
    return bool(total.max() < CANCELLED * size.max() or is_small.any())


def affine_step(op: Op, known: KnownValues) -> tuple[Value, Affine] | None:
    """(x, f) if `op` computes f(x) with a known affine f, in the type of x; None otherwise."""
    rule = traits_of(op).affine
    if rule is None or not op.output.type.dtype.is_float:
        return None
    position = _unknown_operand(op, known)
    if position is None:
        return None
    x, type_ = op.inputs[position], op.output.type
    if x.type != type_:
        return None
    others = [v for i, v in enumerate(op.inputs) if i != position]
    items = _items(others[0], type_.rank, known) if others else np.zeros(0)
    if items is None:
        return None
    with np.errstate(all="ignore"):
        map_ = rule(position, items)
    return None if map_ is None else (x, Affine(*(_of_rank(type_.rank, part) for part in map_)))


def _unknown_operand(op: Op, known: KnownValues) -> int | None:
    """The index of the operand that a unary or binary operation maps; None if none is known."""
    if len(op.inputs) == 1:
        return 0
    left, right = op.inputs
    return 0 if right in known else 1 if left in known else None


def _items(value: Value, rank: int, known: KnownValues) -> Array | None:
    """The items of a known value as float64, of rank `rank`; None if they are not at hand."""
    items = known.items(value)
    if items is None:
        return None
    return items.astype(np.float64).reshape(value.type.dims + (1,) * (rank - items.ndim))


def _of_rank(rank: int, part: Array | float) -> Array:
    """A factor or term as an array of a rank."""
    return part if isinstance(part, np.ndarray) else np.full((1,) * rank, part)


Fits = Callable[[Shape], bool]
"""`fits(shape)`: whether a factor or term of this shape can be folded."""


def chain_after(
    graph: Graph, value: Value, known: KnownValues, fits: Fits, bias: Array | float = 0.0
) -> Iterator[tuple[Op, Affine]]:
    """The chain of affine operations that starts at `value`: (operation, map from `value` to it).

    Each is the only user of the result before.  The chain ends before a term that cancels those
    before, of which `bias` is the first; it is no part of the maps.
    """
    total, term = Affine.identity(value.type.rank), np.asarray(bias)
    while (op := only_user(graph, value)) is not None:
        step = affine_step(op, known)
        if step is None or step[0] is not value or not _fits(step[1], fits):
            return
        if cancels(step[1].scale * term, step[1].shift):
            return
        value, total = op.output, total.then(step[1])
        term = step[1].scale * term + step[1].shift
        yield op, total


def chain_before(
    graph: Graph, value: Value, known: KnownValues, fits: Fits
) -> list[tuple[Op, Value, Affine]]:
    """The chain of affine operations that ends in `value`, last first.

    Each is (operation, its operand x, map from x to `value`), and each result has one user.  The
    chain is empty if one of its terms cancels those behind it.
    """
    total = Affine.identity(value.type.rank)
    chain: list[tuple[Op, Value, Affine]] = []
    while value.op is not None and only_user(graph, value) is not None:
        step = affine_step(value.op, known)
        if step is None or not _fits(step[1], fits):
            break
        op = value.op
        if cancels(total.scale * step[1].shift, total.shift):
            return []
        value, total = step[0], step[1].then(total)
        chain.append((op, value, total))
    return chain


def step_between(value: Value, op: Op, known: KnownValues) -> Affine | None:
    """The map from `value` to the result of `op`, if it is affine with finite items."""
    step = affine_step(op, known)
    return (
        step[1]
        if step is not None and step[0] is value and _fits(step[1], lambda shape: True)
        else None
    )


def _fits(map_: Affine, fits: Fits) -> bool:
    finite = np.isfinite(map_.scale).all() and np.isfinite(map_.shift).all()
    return bool(finite) and fits(map_.scale.shape) and fits(map_.shift.shape)


def per_channel(shape: Shape) -> bool:
    """Whether a factor or term of this shape varies along dimension 1 only."""
    return all(extent == 1 for d, extent in enumerate(shape) if d != 1)
