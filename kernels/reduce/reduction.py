"""Reductions along any set of axes.

The lowering joins dimensions into kept and reduced ones.  If the innermost dimension is reduced, an
output is the reduction of rows; if it is kept, rows are combined item by item.  Floats are summed
in float64, so that the error does not grow with the length, and integers in 64 bits.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import FLOATS, ITEMSIZE
from nnefc.kernels.vector.memory import (
    LOAD,
    NUMBER,
    READ,
    STORE,
    WRITE,
    address,
    helper,
    load_word,
    select,
)

CHUNK = 512
"""Items of a row computed at a time."""
LANES = 32
"""Number of independent partial results along a row."""
PIECE = 4096
"""Most items that are searched for the index of an extreme; they stay in the L1 cache."""


REDUCE = Layout(
    "x:ref y:ref kept_rank kept:8 kept_pitches:8 reduced_rank reduced:8 reduced_pitches:8 "
    "width outputs volume unit_block divisor:f64"
)
"""Parameters of the `reduce` and `softmax` kernels.

x has `kept` and `reduced` dimensions (extents, and pitches in bytes) around rows of `width`
contiguous items.  `outputs` is the product of the kept extents, `volume` of the reduced extents.  y
is dense: [outputs] for the `rows` kernels, which reduce the row, [outputs, width] for the `columns`
kernels, which keep it.  A tile is `unit_block` outputs.
"""
(
    X,
    Y,
    KEPT_RANK,
    KEPT,
    KEPT_PITCHES,
    REDUCED_RANK,
    REDUCED,
    REDUCED_PITCHES,
    WIDTH,
    OUTPUTS,
    VOLUME,
    UNIT_BLOCK,
    DIVISOR,
) = REDUCE.offsets

load_double, load_local, store_word = LOAD["float64"], LOAD["int64"], STORE["int64"]


@helper
def linear_offset(params, rank, extents, pitches, number):
    """Byte offset of the item with linear index `number` in some dimensions."""
    offset = 0
    for d in range(load_word(params + rank) - 1, -1, -1):
        extent = load_word(params + extents + 8 * d)
        offset += number % extent * load_word(params + pitches + 8 * d)
        number = number // extent
    return offset


@helper
def kept_offset(params, number):
    return linear_offset(params, KEPT_RANK, KEPT, KEPT_PITCHES, number)


@helper
def reduced_offset(params, number):
    return linear_offset(params, REDUCED_RANK, REDUCED, REDUCED_PITCHES, number)


def combination(kind: str, item: str) -> tuple[str, Any, Any]:
    """A reduction's type of partial results, neutral value and combining helper.

    max and min propagate NaN.
    """
    wide = "uint64" if item.startswith("u") else "int64"
    if kind == "sum":

        @helper
        def add(a, b):
            return a + b

        if item in FLOATS:
            return "float64", 0.0, add
        return wide, NUMBER[wide](0), add
    if kind == "product":

        @helper
        def multiply(a, b):
            return a * b

        if item in FLOATS:
            return "float64", 1.0, multiply
        return wide, NUMBER[wide](1), multiply
    if kind in ("max", "min"):
        largest = kind == "max"

        @helper
        def extreme(a, b):
            better = (b > a) | (b != b) if largest else (b < a) | (b != b)
            return select(better, b, a)

        if item in FLOATS:
            return item, NUMBER[item](-math.inf if largest else math.inf), extreme
        bounds = np.iinfo(item)
        return item, NUMBER[item](bounds.min if largest else bounds.max), extreme
    every = kind == "all"

    @helper
    def logical(a, b):
        return a & b if every else a | b

    return "bool", every, logical


def finalizer(kind: str, item: str) -> Any:
    """Helper `finish(total, divisor) -> result` of a reduction."""
    if kind == "sum" and item in FLOATS:

        @helper
        def mean(total, divisor):
            return total / divisor

        return mean
    if kind == "sum":
        return _integer_mean(item)

    @helper
    def whole(total, divisor):
        return total

    return whole


def _integer_mean(item: str) -> Any:
    """Helper for total / divisor, rounded towards zero; `divisor` is a positive whole number."""
    signed = not item.startswith("u")
    wide = NUMBER["int64" if signed else "uint64"]

    @helper
    def mean(total, divisor):
        if divisor == 1.0:
            return total
        quotient = total // wide(divisor)
        if signed and quotient < 0 and quotient * wide(divisor) != total:
            quotient += 1  # // rounds down
        return quotient

    return mean


@family()
def rows(kind: str, item: str) -> KernelFunction:
    """Reduction of rows; `kind`: sum, product, max or min of numbers, all or any of bools."""
    partial, start, combine = combination(kind, item)
    load, store, size, number = READ[item], STORE[item], ITEMSIZE[item], NUMBER[item]
    held, hold = LOAD[partial], WRITE[partial]
    convert = NUMBER[partial]
    local, finish = local_bytes(8 * LANES), finalizer(kind, item)

    def rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        divisor = load_double(params + DIVISOR)
        state = local()
        whole = width // LANES * LANES
        for t in range(first * unit_block, min(last * unit_block, outputs)):
            base = x + kept_offset(params, t)
            for lane in range(LANES):
                hold(state, lane, start)
            for v in range(volume):
                row = base + reduced_offset(params, v)
                for i in range(0, whole, LANES):
                    for lane in range(LANES):
                        value = convert(load(row + i * size, lane))
                        hold(state, lane, combine(held(state, lane), value))
                for i in range(whole, width):
                    value = convert(load(row, i))
                    hold(state, i - whole, combine(held(state, i - whole), value))
            half = LANES // 2
            while half > 0:
                for lane in range(half):
                    hold(state, lane, combine(held(state, lane), held(state, lane + half)))
                half = half // 2
            store(y, t, number(finish(held(state, 0), divisor)))

    return rows


@family()
def columns(kind: str, item: str) -> KernelFunction:
    """Reduction that keeps the row: rows are combined item by item.  `kind` as in `rows`."""
    partial, start, combine = combination(kind, item)
    load, store, size, number = READ[item], STORE[item], ITEMSIZE[item], NUMBER[item]
    held, hold = LOAD[partial], WRITE[partial]
    convert = NUMBER[partial]
    local, finish = local_bytes(8 * CHUNK), finalizer(kind, item)

    def columns(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        divisor = load_double(params + DIVISOR)
        state = local()
        chunks = (width + CHUNK - 1) // CHUNK
        for t in range(first * unit_block, min(last * unit_block, outputs * chunks)):
            begin = t % chunks * CHUNK
            count = min(CHUNK, width - begin)
            base = x + kept_offset(params, t // chunks) + begin * size
            for i in range(count):
                hold(state, i, start)
            for v in range(volume):
                row = base + reduced_offset(params, v)
                for i in range(count):
                    hold(state, i, combine(held(state, i), convert(load(row, i))))
            out = y + (t // chunks * width + begin) * size
            for i in range(count):
                store(out, i, number(finish(held(state, i), divisor)))

    return columns


def _better(largest: bool, last: bool):
    @helper
    def better(value, best):
        """Whether `value` replaces `best`; NaN replaces any number.

        The first of equal items wins, or the last if `last`.
        """
        if last:
            return (value >= best if largest else value <= best) | (value != value)
        first = value > best if largest else value < best
        return first | ((value != value) & (best == best))

    return better


def _row_extreme(kind: str, item: str) -> Any:
    """Helper `extreme(row, count, state)`: the `kind`, max or min, of contiguous items, or NaN.

    `state`: memory for `LANES` partial results.
    """
    load, held, hold, size = READ[item], LOAD[item], WRITE[item], ITEMSIZE[item]
    _, _, combine = combination(kind, item)

    @helper
    def extreme(row, count, state):
        result = load(row)
        whole = count // LANES * LANES
        if whole > 0:
            for lane in range(LANES):
                hold(state, lane, result)
            for i in range(0, whole, LANES):
                for lane in range(LANES):
                    hold(state, lane, combine(held(state, lane), load(row + i * size, lane)))
            for lane in range(LANES):
                result = combine(result, held(state, lane))
        for i in range(whole, count):
            result = combine(result, load(row, i))
        return result

    return extreme


@family()
def index_rows(kind: str, item: str, index: str, last: bool = False) -> KernelFunction:
    """Row-major index among the reduced items of the maximum (`kind` max) or minimum.

    The first of equal items wins, or the last if `last`.  Vectors find the best item of each piece
    of a row; its index is then searched in the best piece.
    """
    better, extreme = _better(kind == "max", last), _row_extreme(kind, item)
    load, size, local = LOAD[item], ITEMSIZE[item], local_bytes(8 * LANES)
    store, number = STORE[index], NUMBER[index]

    @helper
    def position(piece, count, best):
        """Index of the first, or last, item that equals `best` or is NaN as well."""
        for step in range(count):
            i = count - 1 - step if last else step
            value = load(piece, i)
            if value == best or value != value:
                return i
        return 0

    @helper
    def in_short_rows(params, base, width, volume):
        best, at = load(base), 0
        for v in range(volume):
            row = base + reduced_offset(params, v)
            for i in range(width):
                value = load(row, i)
                if better(value, best):
                    best, at = value, v * width + i
        return at

    @helper
    def in_long_rows(params, base, width, volume, state):
        best, piece, count, before = load(base), base, 1, 0
        for v in range(volume):
            row = base + reduced_offset(params, v)
            for begin in range(0, width, PIECE):
                some = min(PIECE, width - begin)
                value = extreme(row + begin * size, some, state)
                if (v == 0 and begin == 0) or better(value, best):
                    best, piece, count = value, row + begin * size, some
                    before = v * width + begin
        return before + position(piece, count, best)

    def index_rows(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        state = local()
        for t in range(first * unit_block, min(last * unit_block, outputs)):
            base = x + kept_offset(params, t)
            if width < LANES:
                at = in_short_rows(params, base, width, volume)
            else:
                at = in_long_rows(params, base, width, volume, state)
            store(y, t, number(at))

    return index_rows


@family()
def index_columns(kind: str, item: str, index: str, last: bool = False) -> KernelFunction:
    """As `index_rows`, but the row is kept."""
    better, load, keep, size = _better(kind == "max", last), LOAD[item], STORE[item], ITEMSIZE[item]
    store, number = STORE[index], NUMBER[index]
    index_size = ITEMSIZE[index]
    best_items, best_numbers = local_bytes(8 * CHUNK), local_bytes(8 * CHUNK)

    def index_columns(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, volume = load_word(params + WIDTH), load_word(params + VOLUME)
        unit_block, outputs = load_word(params + UNIT_BLOCK), load_word(params + OUTPUTS)
        best, at = best_items(), best_numbers()
        chunks = (width + CHUNK - 1) // CHUNK
        for t in range(first * unit_block, min(last * unit_block, outputs * chunks)):
            begin = t % chunks * CHUNK
            count = min(CHUNK, width - begin)
            base = x + kept_offset(params, t // chunks) + begin * size
            for i in range(count):
                keep(best, i, load(base, i))
                store_word(at, i, 0)
            for v in range(1, volume):
                row = base + reduced_offset(params, v)
                for i in range(count):
                    value, held = load(row, i), load(best, i)
                    first_one = better(value, held)
                    keep(best, i, select(first_one, value, held))
                    store_word(at, i, select(first_one, v, load_local(at, i)))
            out = y + (t // chunks * width + begin) * index_size
            for i in range(count):
                store(out, i, number(load_local(at, i)))

    return index_columns
