"""Operations on short rows of items: loops over whole vectors, then a masked vector.

Rows of feature maps are 7 to 112 items long.  At such lengths, loops that LLVM vectorises spend
most of their time in prologues and epilogues.  These loops have one path for all lengths and access
no items outside the row.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from nnefc.kernels.vector.item_types import FLOATS
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import fma, select, shuffle_two
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.memory import READ, WRITE, helper
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic


def along(v: Vector, n: Any, carried: list[Any], body: Any) -> list[Any]:
    """Loop over n items by vectors: `body(index of the first item, mask, carried) -> carried`.

    `mask` is None for whole vectors.
    """
    builder = v.builder
    whole = builder.and_(n, v.word(-v.lanes))
    for start, stop, masked in ((v.word(0), whole, False), (whole, n, True)):
        with v.loop(start, stop, v.lanes, carried) as turn:
            mask = v.mask(builder.sub(n, turn.index)) if masked else None
            turn.next = body(turn.index, mask, turn.values)
        carried = turn.values
    return carried


def item_pointer(v: Vector, pointer: Any, index: Any) -> Any:
    """Pointer to item number `index`."""
    return v.at(pointer, v.builder.mul(index, v.word(v.itemsize)))


@cache
def copy_row(item: str) -> Any:
    """Callee `copy(target, source, count)` of contiguous items."""
    if item not in FLOATS:
        read, write = READ[item], WRITE[item]

        @helper
        def copy_items(target, source, count):
            for i in range(count):
                write(target, i, read(source, i))

        return copy_items

    @vector_intrinsic(item, lanes_of(item), 3)
    def copy(v: Vector, target, source, count):
        target, source = v.pointer(target), v.pointer(source)

        def body(index, mask, _):
            items = v.load(item_pointer(v, source, index), mask=mask)
            items.store(item_pointer(v, target, index), mask=mask)
            return []

        along(v, count, [], body)

    return copy


@cache
def fill_row(item: str) -> Any:
    """Intrinsic `fill(target, count)` with zeros."""

    @vector_intrinsic(item, lanes_of(item), 2)
    def fill(v: Vector, target, count):
        target = v.pointer(target)

        def body(index, mask, _):
            v.zero().store(item_pointer(v, target, index), mask=mask)
            return []

        along(v, count, [], body)

    return fill


@cache
def fill_words() -> Any:
    """Intrinsic `fill(target, count, word)` with the low 32 bits of a word."""

    @vector_intrinsic("int32", lanes_of("int32"), 3)
    def fill(v: Vector, target, count, word):
        target, items = v.pointer(target), v.splat(v.builder.trunc(word, I32))

        def body(index, mask, _):
            items.store(item_pointer(v, target, index), mask=mask)
            return []

        along(v, count, [], body)

    return fill


@cache
def combine_row(item: str, kind: Literal["max", "fma"], step: int) -> Any:
    """Intrinsic `combine(target, source, count, weight)`: combines source items into the target.

    max: the larger item, or NaN if either is NaN; fma: target + weight * source, where `weight` is
    the address of one item.  Source items are `step` (1 or 2) items apart.
    """

    @vector_intrinsic(item, lanes_of(item), 4)
    def combine(v: Vector, target, source, count, weight):
        builder = v.builder
        target, source = v.pointer(target), v.pointer(source)
        factor = v.load_splat(v.pointer(weight)) if kind == "fma" else None

        def join(held, x):
            if factor is not None:
                return fma(factor, x, held)
            larger = (x > held) | x.is_nan() if x.is_float else x > held
            return select(larger, x, held)

        def items(index, mask):
            """Source items from `index` on."""
            at = v.at(source, builder.mul(index, v.word(step * v.itemsize)))
            if step == 1:
                return v.load(at, mask=mask)
            # the last of two items may lie beyond the row
            left = v.word(v.lanes) if mask is None else builder.sub(count, index)
            reach = builder.sub(builder.mul(left, v.word(2)), v.word(1))
            low = v.load(at, mask=v.mask(reach))
            rest = builder.sub(reach, v.word(v.lanes))
            high = v.load(v.at(at, v.nbytes), mask=v.mask(rest))
            return shuffle_two(low, high, v, [2 * i for i in range(v.lanes)])

        def body(index, mask, _):
            at = item_pointer(v, target, index)
            join(v.load(at, mask=mask), items(index, mask)).store(at, mask=mask)
            return []

        along(v, count, [], body)

    return combine
