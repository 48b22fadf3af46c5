"""Sliding windows over rows: sums, weighted sums, maxima and their positions, padding.

Parameters are as in `nnefc.kernels.window.taps`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

import math

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import ITEMSIZE, limits
from nnefc.kernels.vector.memory import (
    LOAD,
    NUMBER,
    READ,
    STORE,
    WRITE,
    address,
    fma,
    helper,
    load_word,
    select,
)
from nnefc.kernels.vector.rows import combine_row, copy_row
from nnefc.kernels.window.taps import (
    BIAS,
    BIAS_BYTES,
    CHANNEL_ROWS,
    CHANNELS,
    CHUNK,
    COUNT,
    COUNT_STARTS,
    DIVISOR,
    INDEX_Y,
    LOCAL_BYTES,
    OUTER_COUNT,
    ROW_BLOCK,
    ROWS,
    WEIGHT_BYTES,
    WEIGHTS,
    WIDTH,
    ZEROS,
    X,
    Y,
    load_double,
    load_local,
    locate,
    row_terms,
    store_word,
    tap_loops,
)


@family()
def sum_(item: str) -> KernelFunction:
    """Sums in float64, divided by `divisor` or the number of terms."""
    size, load, store = ITEMSIZE[item], READ[item], STORE[item]
    kind, store_double = NUMBER[item], WRITE["float64"]
    sums, at = local_bytes(8 * CHUNK), local_bytes(LOCAL_BYTES)

    @helper
    def visit(state, first, count, source, step, number, extra):
        if source == 0:
            return
        row = state + 8 * first
        if step == size:
            for i in range(count):
                store_double(row, i, load_double(row, i) + load(source, i))
        elif step == 2 * size:
            for i in range(count):
                store_double(row, i, load_double(row, i) + load(source, 2 * i))
        else:
            for i in range(count):
                store_double(row, i, load_double(row, i) + load(source + i * step))

    visit_taps = tap_loops(visit)

    def sum_(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        divisor = load_double(params + DIVISOR)
        outer = load_word(params + OUTER_COUNT)
        counts = address(bases, params + COUNT)
        counts += 8 * load_word(params + COUNT_STARTS + 8 * outer)
        state, coordinates = sums(), at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(bases, params, x, row, coordinates)
            target = y + row * width * size
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                for i in range(count):
                    store_double(state, i, 0.0)
                visit_taps(bases, params, base, coordinates, begin, count, state, 0)
                out = target + begin * size
                if divisor != 0.0:
                    for i in range(count):
                        store(out, i, kind(load_double(state, i) / divisor))
                else:
                    terms = row_terms(bases, params, coordinates)
                    for i in range(count):
                        n = max(terms * load_word(counts + 8 * (begin + i)), 1)
                        store(out, i, kind(load_double(state, i) / n))

    return sum_


@family()
def weighted(item: str) -> KernelFunction:
    """Weighted sums plus bias: depthwise convolution."""
    add, add_every_other = combine_row(item, "fma", 1), combine_row(item, "fma", 2)
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    at = local_bytes(LOCAL_BYTES)

    @helper
    def visit(state, first, count, source, step, number, extra):
        if source == 0:
            return
        row = state + size * first
        if step == size:
            add(row, source, count, extra + number * size)
        elif step == 2 * size:
            add_every_other(row, source, count, extra + number * size)
        else:
            weight = load(extra, number)
            for i in range(count):
                store(row, i, fma(weight, load(source + i * step), load(row, i)))

    visit_taps = tap_loops(visit)

    def weighted(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        weights, bias = address(bases, params + WEIGHTS), address(bases, params + BIAS)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        channels, channel_rows = load_word(params + CHANNELS), load_word(params + CHANNEL_ROWS)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(bases, params, x, row, coordinates)
            channel = row // channel_rows % channels
            start = load(bias + channel * load_word(params + BIAS_BYTES))
            extra = weights + channel * load_word(params + WEIGHT_BYTES)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                out = y + (row * width + begin) * size
                for i in range(count):
                    store(out, i, start)
                visit_taps(bases, params, base, coordinates, begin, count, out, extra)

    return weighted


@family()
def max_(item: str) -> KernelFunction:
    """Maxima; NaN if an item is NaN, the lowest number for an empty window."""
    take, take_every_other = combine_row(item, "max", 1), combine_row(item, "max", 2)
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    kind = NUMBER[item]
    at = local_bytes(LOCAL_BYTES)

    @helper
    def larger(x, best):
        return select((x > best) | (x != x), x, best)

    @helper
    def visit(state, first, count, source, step, number, extra):
        row = state + size * first
        if source == 0:
            if extra == 1:
                for i in range(count):
                    store(row, i, larger(kind(0), load(row, i)))
        elif step == size:
            take(row, source, count, 0)
        elif step == 2 * size:
            take_every_other(row, source, count, 0)
        else:
            for i in range(count):
                store(row, i, larger(load(source + i * step), load(row, i)))

    visit_taps = tap_loops(visit)
    lowest = limits(item)[0]

    def max_(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block, zeros = load_word(params + ROW_BLOCK), load_word(params + ZEROS)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(bases, params, x, row, coordinates)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                out = y + (row * width + begin) * size
                for i in range(count):
                    store(out, i, kind(lowest))
                visit_taps(bases, params, base, coordinates, begin, count, out, zeros)

    return max_


@family()
def argmax(item: str, index: str, values: bool) -> KernelFunction:
    """Row-major position in the window of the first maximum, and the maximum if `values`.

    NaN is larger than any number; position 0 and -inf for an empty window.
    """
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    index_size, store_index = ITEMSIZE[index], STORE[index]
    kind, index_kind = NUMBER[item], NUMBER[index]
    best, at = local_bytes(16 * CHUNK), local_bytes(LOCAL_BYTES)
    positions_at = 8 * CHUNK
    lowest = -math.inf

    @helper
    def consider(row, positions, i, value, number):
        held, where = load(row, i), load_local(positions, i)
        better = (value > held) | ((value != value) & (held == held)) | (where < 0)
        store(row, i, select(better, value, held))
        store_word(positions, i, select(better, number, where))

    @helper
    def visit(state, first, count, source, step, number, extra):
        row, positions = state + size * first, state + positions_at + 8 * first
        if source == 0:
            if extra == 1:
                for i in range(count):
                    consider(row, positions, i, kind(0), number)
        elif step == size:
            for i in range(count):
                consider(row, positions, i, load(source, i), number)
        else:
            for i in range(count):
                consider(row, positions, i, load(source + i * step), number)

    visit_taps = tap_loops(visit)

    def argmax(bases, params, first, last):
        x = address(bases, params + X)
        index_y = address(bases, params + INDEX_Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block, zeros = load_word(params + ROW_BLOCK), load_word(params + ZEROS)
        coordinates = at()
        state = best()
        positions = state + positions_at
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(bases, params, x, row, coordinates)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                for i in range(count):
                    store(state, i, kind(lowest))
                    store_word(positions, i, -1)
                visit_taps(bases, params, base, coordinates, begin, count, state, zeros)
                out = index_y + (row * width + begin) * index_size
                for i in range(count):
                    store_index(out, i, index_kind(max(load_local(positions, i), 0)))
                if values:
                    out = address(bases, params + Y) + (row * width + begin) * size
                    for i in range(count):
                        store(out, i, load(state, i))

    return argmax


@family(moves=True)
def pad(item: str) -> KernelFunction:
    """The item at the only tap, or the item at `bias` outside the input."""
    copy = copy_row(item)
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    at = local_bytes(LOCAL_BYTES)

    @helper
    def visit(state, first, count, source, step, number, extra):
        row = state + size * first
        if source == 0:
            value = load(extra)
            for i in range(count):
                store(row, i, value)
        elif step == size:
            copy(row, source, count)
        else:
            for i in range(count):
                store(row, i, load(source + i * step))

    visit_taps = tap_loops(visit)

    def pad(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        value = address(bases, params + BIAS)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(bases, params, x, row, coordinates)
            visit_taps(bases, params, base, coordinates, 0, width, y + row * width * size, value)

    return pad
