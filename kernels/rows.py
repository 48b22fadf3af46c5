"""Operations on short rows of items: whole vectors, then a masked one.

Rows of feature maps are 7 to 112 items long.  At such lengths the loops that LLVM makes spend
their time before and after the vectors; these have one path for every length, and touch
nothing but the items asked for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from nnefc.kernels.vector import Vector, lanes_of, vector_intrinsic


@cache
def copy_row(item: str) -> Any:
    """Intrinsic `copy(target, source, count)`: contiguous items."""

    @vector_intrinsic(item, lanes_of(item), 3)
    def copy(v: Vector, target, source, count):
        builder = v.builder
        target, source = v.pointer(target), v.pointer(source)
        whole = builder.and_(count, v.word(-v.lanes))
        with v.loop(0, whole, v.lanes) as turn:
            offset = builder.mul(turn.index, v.word(v.itemsize))
            v.store(v.load(v.at(source, offset)), v.at(target, offset))
        with v.loop(whole, count, v.lanes) as turn:
            offset = builder.mul(turn.index, v.word(v.itemsize))
            mask = v.mask(builder.sub(count, turn.index))
            v.masked_store(v.masked_load(v.at(source, offset), mask), v.at(target, offset), mask)

    return copy


@cache
def fill_row(item: str) -> Any:
    """Intrinsic `fill(target, count)`: zeros."""

    @vector_intrinsic(item, lanes_of(item), 2)
    def fill(v: Vector, target, count):
        builder = v.builder
        target = v.pointer(target)
        whole = builder.and_(count, v.word(-v.lanes))
        with v.loop(0, whole, v.lanes) as turn:
            v.store(v.zero(), v.at(target, builder.mul(turn.index, v.word(v.itemsize))))
        with v.loop(whole, count, v.lanes) as turn:
            at = v.at(target, builder.mul(turn.index, v.word(v.itemsize)))
            v.masked_store(v.zero(), at, v.mask(builder.sub(count, turn.index)))

    return fill


@cache
def combine_row(item: str, kind: Literal["max", "fma"], step: int) -> Any:
    """Intrinsic `combine(target, source, count, weight)`: put source items into the target's.

    max: the larger, or NaN if one is; fma: target + weight * source, where `weight` is the address
    of one item.  Source items are `step` (1 or 2) items apart.
    """

    @vector_intrinsic(item, lanes_of(item), 4)
    def combine(v: Vector, target, source, count, weight):
        builder = v.builder
        target, source = v.pointer(target), v.pointer(source)
        factor = v.splat(v.load_item(v.pointer(weight))) if kind == "fma" else None

        def join(held, x):
            if factor is not None:
                return v.fma(factor, x, held)
            larger = builder.fcmp_ordered(">", x, held)
            better = builder.or_(larger, builder.fcmp_unordered("uno", x, x))
            return builder.select(better, x, held)

        def items(index, left):
            """Source items from `index` on; `left` None: all lanes, else only so many."""
            at = v.at(source, builder.mul(index, v.word(step * v.itemsize)))
            if step == 1:
                return v.load(at) if left is None else v.masked_load(at, v.mask(left))
            # the last of two items may lie beyond the row
            last = v.word(2 * v.lanes) if left is None else builder.mul(left, v.word(2))
            reach = builder.sub(last, v.word(1))
            low = v.masked_load(at, v.mask(reach))
            rest = builder.sub(reach, v.word(v.lanes))
            return v.even(low, v.masked_load(v.at(at, v.nbytes), v.mask(rest)))

        whole = builder.and_(count, v.word(-v.lanes))
        with v.loop(0, whole, v.lanes) as turn:
            at = v.at(target, builder.mul(turn.index, v.word(v.itemsize)))
            v.store(join(v.load(at), items(turn.index, None)), at)
        with v.loop(whole, count, v.lanes) as turn:
            at = v.at(target, builder.mul(turn.index, v.word(v.itemsize)))
            left = builder.sub(count, turn.index)
            mask = v.mask(left)
            v.masked_store(join(v.masked_load(at, mask), items(turn.index, left)), at, mask)

    return combine
