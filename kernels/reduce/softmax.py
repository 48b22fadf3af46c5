"""Softmax over any set of axes: exp(x - max), divided by its sum.

Parameters are as in `nnefc.kernels.reduce.reduction`; y has the shape of x.  Sums are in float64.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

import math
from functools import cache
from typing import Any

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.reduce.reduction import (
    CHUNK,
    OUTPUTS,
    REDUCED,
    REDUCED_RANK,
    UNIT_BLOCK,
    VOLUME,
    WIDTH,
    X,
    Y,
    kept_offset,
    reduced_offset,
)
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.emit_expression import emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of, longest_lanes
from nnefc.kernels.vector.lanes import Lanes, select
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.math import exp_nonpositive
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word
from nnefc.kernels.vector.rows import along, item_pointer
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic


def exponential(x: Lanes, libm: Any) -> Lanes:
    """e**x for x <= 0; `libm`: address of the table of the C library, for float64."""
    if x.dtype == "float32":
        return exp_nonpositive(x)
    return emit(x.v, Expression((x.dtype,), (("exp", (0,), x.dtype, None),), (1,)), [x], libm)[0]


def maximum(x: Lanes) -> Any:
    """The largest item of a vector, an LLVM item; NaN may be ignored."""
    b = x.v.builder
    items = [b.extract_element(x.value, I64(i)) for i in range(x.v.lanes)]
    while len(items) > 1:
        pairs = zip(items[::2], items[1::2], strict=True)
        items = [
            b.select(b.fcmp_ordered(">", first, second), first, second) for first, second in pairs
        ]
    return items[0]


def larger(x: Lanes, y: Lanes) -> Lanes:
    """The larger items; the item of y if either is NaN."""
    return select(x > y, x, y)


def masked(mask: Lanes | None, x: Lanes, other: float) -> Lanes:
    """`x`, with `other` in the lanes outside the mask."""
    return x if mask is None else select(mask, x, other)


# -- reduction of rows; `state` holds the largest item, and 8 bytes further the float64 sum


@cache
def row_largest(item: str) -> Any:
    """Intrinsic `largest(x, n, state)`: updates the largest item in the state by n items."""

    @vector_intrinsic(item, lanes_of(item), 3)
    def largest(v: Vector, x, n, state):
        x, state = v.pointer(x), v.pointer(state)

        def body(index, mask, carried):
            value = masked(mask, v.load(item_pointer(v, x, index), mask=mask), -math.inf)
            return [larger(value, carried[0])]

        (top,) = along(v, n, [v.load_splat(state)], body)
        v.store_item(maximum(top), state)

    return largest


@cache
def row_powers(item: str) -> Any:
    """Intrinsic `powers(x, y, n, state, libm)`: y = exp(x - largest), added to the sum.

    The order of the terms is the same on all machines.
    """

    @vector_intrinsic(item, longest_lanes(item), 5)
    def powers(v: Vector, x, y, n, state, libm):
        x, y, state = v.pointer(x), v.pointer(y), v.pointer(state)
        wide, top = v.of("float64"), v.load_splat(state)

        def body(index, mask, carried):
            value = exponential(v.load(item_pointer(v, x, index), mask=mask) - top, libm)
            value.store(item_pointer(v, y, index), mask=mask)
            return [carried[0] + convert(masked(mask, value, 0.0), "float64")]

        (total,) = along(v, n, [wide.zero()], body)
        before = wide.load_item(state, 8)
        wide.store_item(v.builder.fadd(before, total.total()), state, 8)

    return powers


@cache
def row_scale(item: str) -> Any:
    """Intrinsic `scale(y, n, state)`: y divided by the sum."""

    @vector_intrinsic(item, lanes_of(item), 3)
    def scale(v: Vector, y, n, state):
        y, state = v.pointer(y), v.pointer(state)
        wide = v.of("float64")
        factor = v.builder.fdiv(wide.item(1.0), wide.load_item(state, 8))
        if item == "float32":
            factor = v.builder.fptrunc(factor, v.item)
        factor = v.splat(factor)

        def body(index, mask, _):
            at = item_pointer(v, y, index)
            (v.load(at, mask=mask) * factor).store(at, mask=mask)
            return []

        along(v, n, [], body)

    return scale


# -- rows that are combined item by item


@cache
def column_largest(item: str) -> Any:
    """Intrinsic `largest(tops, x, n)`: tops = the larger items of tops and x."""

    @vector_intrinsic(item, lanes_of(item), 3)
    def largest(v: Vector, tops, x, n):
        tops, x = v.pointer(tops), v.pointer(x)

        def body(index, mask, _):
            at = item_pointer(v, tops, index)
            value = v.load(item_pointer(v, x, index), mask=mask)
            larger(value, v.load(at, mask=mask)).store(at, mask=mask)
            return []

        along(v, n, [], body)

    return largest


@cache
def column_powers(item: str) -> Any:
    """Intrinsic `powers(tops, x, y, sums, n, libm)`: y = exp(x - top), added to float64 sums."""

    @vector_intrinsic(item, lanes_of(item), 6)
    def powers(v: Vector, tops, x, y, sums, n, libm):
        tops, x, y, sums = (v.pointer(p) for p in (tops, x, y, sums))
        wide = v.of("float64")

        def body(index, mask, _):
            top = v.load(item_pointer(v, tops, index), mask=mask)
            value = exponential(v.load(item_pointer(v, x, index), mask=mask) - top, libm)
            value.store(item_pointer(v, y, index), mask=mask)
            at = item_pointer(wide, sums, index)
            total = wide.load(at, mask=mask)
            (total + convert(value, "float64")).store(at, mask=mask)
            return []

        along(v, n, [], body)

    return powers


@cache
def column_scale(item: str) -> Any:
    """Intrinsic `scale(y, sums, n)`: y divided by the sums."""

    @vector_intrinsic(item, lanes_of(item), 3)
    def scale(v: Vector, y, sums, n):
        y, sums = v.pointer(y), v.pointer(sums)
        wide = v.of("float64")

        def body(index, mask, _):
            at = item_pointer(v, y, index)
            total = convert(wide.load(item_pointer(wide, sums, index), mask=mask), item)
            (v.load(at, mask=mask) / total).store(at, mask=mask)
            return []

        along(v, n, [], body)

    return scale


@family()
def rows(item: str) -> KernelFunction:
    """Softmax over the innermost dimension, and possibly others."""
    largest, powers, scale = row_largest(item), row_powers(item), row_scale(item)
    put, put_sum, lowest = STORE[item], STORE["float64"], NUMBER[item](-math.inf)
    local = local_bytes(16)

    def rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        libm = load_word(bases + 8 * BASE_LIBM)
        state = local()
        for t in range(first * unit_block, min(last * unit_block, outputs)):
            base = kept_offset(params, t)
            put(state, lowest)
            put_sum(state, 1, 0.0)
            for i in range(volume):
                largest(x + base + reduced_offset(params, i), width, state)
            for i in range(volume):
                offset = base + reduced_offset(params, i)
                powers(x + offset, y + offset, width, state, libm)
            for i in range(volume):
                scale(y + base + reduced_offset(params, i), width, state)

    return rows


FOLDED = 4
"""Vectors up to which short rows are joined and combined as one row; fewer items than `CHUNK`."""


@helper
def following_rows(params):
    """Number of consecutive rows in memory that are reduced together.

    Neighbouring reduced dimensions are joined, so the innermost one steps from row to row.
    """
    rank = load_word(params + REDUCED_RANK)
    return load_word(params + REDUCED + 8 * (rank - 1)) if rank > 0 else 1


@cache
def over_rows(item: str, step: Any) -> Any:
    """Helper that calls `step(x, y, tops, sums, n, libm)` for all reduced rows, `rows` at a time.

    A row has `count` items; x and y are the addresses of the first row.
    """
    size = ITEMSIZE[item]

    @helper
    def run(params, x, y, tops, sums, rows, count, libm):
        following, row = following_rows(params), load_word(params + WIDTH) * size
        for i in range(load_word(params + VOLUME) // following):
            offset, left = reduced_offset(params, i * following), following
            while left > 0:
                step(x + offset, y + offset, tops, sums, min(rows, left) * count, libm)
                offset += rows * row
                left -= rows

    return run


@cache
def column_passes(item: str) -> Any:
    """Helpers for the three passes over columns: largest, powers, scale; see `over_rows`."""
    largest, powers, scale = column_largest(item), column_powers(item), column_scale(item)

    @helper
    def find_largest(x, y, tops, sums, n, libm):
        largest(tops, x, n)

    @helper
    def add_powers(x, y, tops, sums, n, libm):
        powers(tops, x, y, sums, n, libm)

    @helper
    def divide(x, y, tops, sums, n, libm):
        scale(y, sums, n)

    return tuple(over_rows(item, step) for step in (find_largest, add_powers, divide))


@cache
def fold(item: str) -> Any:
    """Helpers `largest(tops, rows, count)` and `total(sums, rows, count)`.

    They reduce each column of `rows` rows of `count` items, and store the result in every row.
    """
    load, put = LOAD[item], STORE[item]
    load_sum, put_sum = LOAD["float64"], STORE["float64"]

    @helper
    def largest(tops, rows, count):
        for i in range(count):
            top = load(tops, i)
            for k in range(i + count, rows * count, count):
                other = load(tops, k)
                if other > top:
                    top = other
            for k in range(i, rows * count, count):
                put(tops, k, top)

    @helper
    def total(sums, rows, count):
        for i in range(count):
            value = 0.0
            for k in range(i, rows * count, count):
                value += load_sum(sums, k)
            for k in range(i, rows * count, count):
                put_sum(sums, k, value)

    return largest, total


@family()
def columns(item: str) -> KernelFunction:
    """Softmax over other dimensions than the innermost.

    Neighbouring short rows are reduced together as one longer row.
    """
    find_largest, add_powers, divide = column_passes(item)
    fold_largest, fold_total = fold(item)
    put, put_sum, lowest = STORE[item], STORE["float64"], NUMBER[item](-math.inf)
    size, folded = ITEMSIZE[item], FOLDED * longest_lanes(item)
    largest_items, sums_of_items = local_bytes(8 * CHUNK), local_bytes(8 * CHUNK)

    def columns(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, outputs = load_word(params + WIDTH), load_word(params + OUTPUTS)
        unit_block, libm = load_word(params + UNIT_BLOCK), load_word(bases + 8 * BASE_LIBM)
        tops, sums = largest_items(), sums_of_items()
        chunks = (width + CHUNK - 1) // CHUNK
        rows = max(min(folded // width, following_rows(params)), 1)
        for t in range(first * unit_block, min(last * unit_block, outputs * chunks)):
            begin = t % chunks * CHUNK
            count = min(CHUNK, width - begin)
            base = kept_offset(params, t // chunks) + begin * size
            for i in range(rows * count):
                put(tops, i, lowest)
                put_sum(sums, i, 0.0)
            find_largest(params, x + base, y + base, tops, sums, rows, count, libm)
            if rows > 1:
                fold_largest(tops, rows, count)
            add_powers(params, x + base, y + base, tops, sums, rows, count, libm)
            if rows > 1:
                fold_total(sums, rows, count)
            divide(params, x + base, y + base, tops, sums, rows, count, libm)

    return columns
