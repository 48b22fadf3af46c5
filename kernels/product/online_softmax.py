"""Online softmax over rows in blocks: sums are rescaled to each new maximum.

See Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from functools import cache
from typing import Any

from nnefc.kernels.reduce.softmax import exponential, larger, masked, maximum
from nnefc.kernels.vector.lane_builder import lanes_of, longest_lanes
from nnefc.kernels.vector.lanes import Lanes, select
from nnefc.kernels.vector.rows import along, item_pointer
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic


@cache
def exponentials(item: str) -> Any:
    """Intrinsic `run(rows, n, seen, x, pitch, state, y, y_row, width, fresh, libm)`.

    Rows of n items at x become exp(item - largest so far).  Only the first `seen` + i items of row
    i count, the others become 0.  `state` holds two words per row, the largest item and the sum of
    exponentials so far.  If not `fresh`, the sum and the row of `width` items at y are first scaled
    to the new maximum.  The order of the terms of a sum is the same on all machines.
    """

    @vector_intrinsic(item, longest_lanes(item), 11, apart=True)
    def run(v: Vector, rows, n, seen, x, pitch, state, y, y_row, width, fresh, libm):
        builder = v.builder
        x, y, state = v.pointer(x), v.pointer(y), v.pointer(state)
        lowest = v.constant(-math.inf)
        is_fresh = builder.icmp_signed("!=", fresh, v.word(0))

        with v.loop(0, rows, 1) as row:
            start = v.at(x, builder.mul(row.index, pitch))
            reach = builder.add(seen, row.index)
            reach = builder.select(builder.icmp_signed("<", reach, n), reach, n)
            count = builder.select(builder.icmp_signed(">", reach, v.word(0)), reach, v.word(0))
            largest_at = v.at(state, builder.mul(row.index, v.word(16)))
            sum_at = v.at(largest_at, 8)
            before = v.load_splat(largest_at)
            old = v.value(builder.select(is_fresh, lowest.value, before.value))

            def top_items(index, mask, carried):
                value = v.load(item_pointer(v, start, index), mask=mask)
                return [larger(masked(mask, value, -math.inf), carried[0])]

            (tops,) = along(v, count, [old], top_items)
            top = v.splat(maximum(tops))
            # a row without finite items so far: exp(-inf - 0) is 0
            base = select(top.equals(-math.inf), 0.0, top)

            def powers(index, mask, carried):
                at = item_pointer(v, start, index)
                value = exponential(v.load(at, mask=mask) - base, libm)
                value.store(at, mask=mask)
                return [carried[0] + masked(mask, value, 0.0)]

            (sums,) = along(v, count, [v.zero()], powers)
            with v.loop(count, n, v.lanes) as column:
                at = item_pointer(v, start, column.index)
                v.zero().store(at, mask=v.mask(builder.sub(n, column.index)))
            total = sums.total()
            v.store_item(builder.extract_element(top.value, v.word(0)), largest_at)
            with builder.if_else(is_fresh) as (first, later):
                with first:
                    v.store_item(total, sum_at)
                with later:
                    factor = exponential(old - base, libm)
                    kept_sum = builder.fmul(
                        v.load_item(sum_at), builder.extract_element(factor.value, v.word(0))
                    )
                    v.store_item(builder.fadd(kept_sum, total), sum_at)
                    _scale(v, v.at(y, builder.mul(row.index, y_row)), width, factor)

    return run


def _scale(v: Vector, row: Any, width: Any, factor: Lanes) -> None:
    """Multiply the items of a row."""
    builder = v.builder
    with v.loop(0, width, v.lanes) as turn:
        at = v.at(row, builder.mul(turn.index, v.word(v.itemsize)))
        mask = v.mask(builder.sub(width, turn.index))
        (v.load(at, mask=mask) * factor).store(at, mask=mask)


@cache
def divide_rows(item: str) -> Any:
    """Intrinsic `divide(rows, width, y, y_row, state, empty)`: rows by the sums of `exponentials`.

    Rows whose sum is 0 stay unchanged if `empty`, else they become NaN.
    """

    @vector_intrinsic(item, lanes_of(item), 6, apart=True)
    def divide(v: Vector, rows, width, y, y_row, state, empty):
        builder = v.builder
        least = builder.select(
            builder.icmp_signed("!=", empty, v.word(0)), v.item(1.0), v.item(0.0)
        )
        y, state = v.pointer(y), v.pointer(state)
        with v.loop(0, rows, 1) as row:
            total = v.load_item(v.at(state, builder.mul(row.index, v.word(16))), 8)
            is_empty = builder.fcmp_ordered("==", total, v.item(0.0))
            factor = builder.fdiv(v.item(1.0), builder.select(is_empty, least, total))
            _scale(v, v.at(y, builder.mul(row.index, y_row)), width, v.splat(factor))

    return divide
