"""Exponentials of rows of scores, rounded to halves."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from nnefc.kernels.reduce.softmax import larger, masked
from nnefc.kernels.vector import quick_halves
from nnefc.kernels.vector.dot_halves import SMALLER, Half
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, select, shuffle
from nnefc.kernels.vector.llvm_types import FLOAT, I32
from nnefc.kernels.vector.rows import along, item_pointer
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

_TOGETHER: Final = 4
"""Vectors of a turn: their maxima are independent."""


@cache
def half_exponentials(half: Half) -> Any:
    """Intrinsic `run(rows, n, count, x, x_row, factor, y, y_row, state)`.

    Rows of n float32 at x become exp(factor * (item - largest of the row)), rounded to `half`, at
    y, as float16 multiplied with `SMALLER`; `factor` is the bits of a positive float32.  Rows of y
    have `count` items, rounded up to whole vectors; those beyond n are 0.  `state` holds two words
    per row, the largest item and the sum of the exponentials before they are rounded.
    """

    @vector_intrinsic("float32", lanes_of("float32"), 9, apart=True)
    def run(v: Vector, rows, n, count, x, x_row, factor, y, y_row, state):
        builder = v.builder
        x, y, state = v.pointer(x), v.pointer(y), v.pointer(state)
        factor = v.splat(builder.bitcast(builder.trunc(factor, I32), FLOAT))
        # in a loop of their own, maxima of several rows are found at the same time
        with v.loop(0, rows, 1) as row:
            top = _largest(v, v.at(x, builder.mul(row.index, x_row)), n)
            item = builder.extract_element(top.value, v.word(0))
            v.store_item(item, v.at(state, builder.mul(row.index, v.word(16))))
        with v.loop(0, rows, 1) as row:
            source = v.at(x, builder.mul(row.index, x_row))
            target = v.at(y, builder.mul(row.index, y_row))
            top_at = v.at(state, builder.mul(row.index, v.word(16)))
            top = v.load_splat(top_at)
            # a row without finite items: exp(-inf - 0) is 0
            base = select(top.equals(-math.inf), 0.0, top)

            def power(index, mask, carried, source=source, target=target, base=base):
                value = v.load(item_pointer(v, source, index), mask=mask)
                value = _power(masked(mask, value, -math.inf) - base, factor)
                at = v.at(target, builder.mul(index, v.word(2)))
                small = value * SMALLER if half == "float16" else value
                quick_halves.narrow(small, half).store(at)
                return [carried[0] + value]

            (sums,) = along(v, n, [v.zero()], power)
            v.store_item(sums.total(), top_at, 8)
            filled = builder.and_(builder.add(n, v.word(v.lanes - 1)), v.word(-v.lanes))
            with v.loop(filled, count, v.lanes) as column:
                v.of(half).zero().store(v.at(target, builder.mul(column.index, v.word(2))))

    return run


def _largest(v: Vector, source: Any, n: Any) -> Lanes:
    """The largest of n items in every lane; NaN may be ignored."""
    builder, together = v.builder, _TOGETHER * v.lanes
    whole = builder.and_(n, v.word(-together))
    with v.loop(0, whole, together, [v.constant(-math.inf)] * _TOGETHER) as turn:
        at = item_pointer(v, source, turn.index)
        turn.next = [larger(v.load(at, v.nbytes * i), top) for i, top in enumerate(turn.values)]
    tops: Sequence[Lanes] = turn.values
    while len(tops) > 1:
        tops = [larger(a, b) for a, b in zip(tops[::2], tops[1::2], strict=True)]
    rest = v.at(source, builder.mul(whole, v.word(v.itemsize)))

    def body(index, mask, carried):
        value = v.load(item_pointer(v, rest, index), mask=mask)
        return [larger(masked(mask, value, -math.inf), carried[0])]

    (top,) = along(v, builder.sub(n, whole), [*tops], body)
    width = v.lanes
    while width > 1:
        width //= 2
        top = larger(top, shuffle(top, v, [i ^ width for i in range(v.lanes)]))
    return top


def _power(x: Lanes, factor: Lanes) -> Lanes:
    """exp(x * factor) for x <= 0 or NaN; 0 where that is denormal."""
    x = x * factor
    low = quick_halves.LOWEST
    return select(x < low, 0.0, quick_halves.exp(select(x < low, low, x)))
