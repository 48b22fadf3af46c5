"""Sliding windows over rows: sums, weighted sums and maxima of what the taps meet.

Which item of the input a tap meets is data: per dimension a table [taps, outputs] of source
indices, so stride, dilation, padding, border modes and the reverse operations are one kernel.
The last dimension is cut into runs, stretches of outputs whose sources are evenly spaced: a
tap then is an operation on rows, which vectorises.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

import math

from nnefc.kernels.memory import (
    ITEMSIZE,
    LOAD,
    NUMBA,
    READ,
    STORE,
    WRITE,
    address,
    fma,
    helper,
    load_word,
    select,
)
from nnefc.kernels.rows import combine_row, copy_row
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.tile import local_bytes

OUTER = 7
CHUNK = 512
"""Items of a row that are worked on at a time."""

WINDOW = Layout(
    "x:ref y:ref index_y:ref weights:ref bias:ref rows width outer extents:7 pitches:7 taps:7 "
    "index:table starts:7 last_taps runs:table row_block zeros "
    "channel weight_bytes bias_bytes divisor:f64 count:table count_starts:8"
)
"""Parameters of the `window` kernels.

y: [rows, width] dense; rows are the combinations of `outer` dimensions with output `extents`,
input `pitches` (bytes) and numbers of `taps`.  `index` holds their tables, each [taps, outputs]
of source indices (negative: nothing there) from word `starts`; a start of -1 means that
output i reads item i.  `runs` describes the last
dimension as in `convolution.gemm`.  A tile is `row_block` rows.
zeros: where nothing is there a maximum meets a zero.
channel: number of the outer dimension that chooses weights [taps] and bias, of so many bytes.
divisor: of sums; 0: divide by the number of terms instead, the product of what `count` (per
dimension, the last one included, from word `count_starts`) says.
"""
(
    X,
    Y,
    INDEX_Y,
    WEIGHTS,
    BIAS,
    ROWS,
    WIDTH,
    OUTER_COUNT,
    EXTENTS,
    PITCHES,
    TAPS,
    INDEX,
    STARTS,
    LAST_TAPS,
    RUNS,
    ROW_BLOCK,
    ZEROS,
    CHANNEL,
    WEIGHT_BYTES,
    BIAS_BYTES,
    DIVISOR,
    COUNT,
    COUNT_STARTS,
) = WINDOW.offsets

load_local = LOAD["int64"]
load_double = LOAD["float64"]
store_word = STORE["int64"]


MOVING_AT = 64
MOVING = 40
LOCAL_BYTES = MOVING_AT + 7 * MOVING
"""Where a row is: a word per outer dimension for its coordinate, the number of dimensions in
which the window moves, and for each of these, the last first: address of the index that the
tap meets, distance to that of the next tap, number of taps, pitch, and number of the tap."""


@helper
def locate(params, x, row, at):
    """Fill `at` for output row `row`; address of what the dimensions without a window leave.

    0 if there is nothing there.
    """
    index = params + load_word(params + INDEX)
    base, moving, missing = x, at + MOVING_AT, False
    for d in range(load_word(params + OUTER_COUNT) - 1, -1, -1):
        extent, taps = load_word(params + EXTENTS + 8 * d), load_word(params + TAPS + 8 * d)
        start, pitch = load_word(params + STARTS + 8 * d), load_word(params + PITCHES + 8 * d)
        source = row % extent
        row = row // extent
        store_word(at + 8 * d, source)
        if taps > 1:
            store_word(moving, index + 8 * (start + source))
            store_word(moving + 8, 8 * extent)
            store_word(moving + 16, taps)
            store_word(moving + 24, pitch)
            store_word(moving + 32, 0)
            moving += MOVING
            continue
        if start >= 0:
            source = load_word(index + 8 * (start + source))
        missing |= source < 0
        base += source * pitch
    store_word(at + 56, (moving - at - MOVING_AT) // MOVING)
    return 0 if missing else base


@helper
def source_row(base, at):
    """Address of the input row that the outer taps meet, 0 if there is none."""
    if base == 0:
        return 0
    moving = at + MOVING_AT
    for _ in range(load_local(at + 56)):
        source = load_word(load_local(moving))
        if source < 0:
            return 0
        base += source * load_local(moving + 24)
        moving += MOVING
    return base


@helper
def next_tap(at):
    """Step to the next combination of outer taps; 0 after the last."""
    moving = at + MOVING_AT
    for _ in range(load_local(at + 56)):
        tap, taps = load_local(moving + 32) + 1, load_local(moving + 16)
        word, step = load_local(moving), load_local(moving + 8)
        if tap < taps:
            store_word(moving + 32, tap)
            store_word(moving, word + step)
            return 1
        store_word(moving + 32, 0)
        store_word(moving, word - (taps - 1) * step)
        moving += MOVING
    return 0


@helper
def row_terms(params, at):
    """Number of terms along the outer dimensions for the row with coordinates `at`."""
    count = params + load_word(params + COUNT)
    terms = 1
    for d in range(load_word(params + OUTER_COUNT)):
        place = load_word(params + COUNT_STARTS + 8 * d) + load_local(at + 8 * d)
        terms *= load_word(count + 8 * place)
    return terms


def _walker(visit):
    """`walk(params, base, at, begin, count, state, extra)`: all taps of one stretch of a row.

    `base` and `at` are from `locate`.  Calls visit(state, first, count, source, step, number,
    extra) for every run in it, first relative to `begin`; source is 0 where nothing is there.
    """

    @helper
    def walk(params, base, at, begin, count, state, extra):
        last_taps = load_word(params + LAST_TAPS)
        runs = params + load_word(params + RUNS)
        pieces = runs + 8 * (last_taps + 1)
        end = begin + count
        number = 0
        more = 1
        while more == 1:
            start = source_row(base, at)
            for t in range(last_taps):
                for r in range(load_word(runs + 8 * t), load_word(runs + 8 * t + 8)):
                    run = pieces + 32 * r
                    low, high = max(load_word(run), begin), min(load_word(run + 8), end)
                    if low < high:
                        source, step = load_word(run + 16), load_word(run + 24)
                        if start == 0 or source < 0:
                            source = 0
                        else:
                            source += start + (low - load_word(run)) * step
                        visit(state, low - begin, high - low, source, step, number, extra)
                number += 1
            more = next_tap(at)

    return walk


@family("window.sum")
def window_sum(item: str) -> KernelFunction:
    """Sums, in float64, divided as `divisor` says."""
    size, load, store = ITEMSIZE[item], READ[item], STORE[item]
    kind, store_double = NUMBA[item], WRITE["float64"]
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

    walk = _walker(visit)

    def window_sum(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        divisor = load_double(params + DIVISOR)
        outer = load_word(params + OUTER_COUNT)
        counts = params + load_word(params + COUNT)
        counts += 8 * load_word(params + COUNT_STARTS + 8 * outer)
        state, coordinates = sums(), at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(params, x, row, coordinates)
            target = y + row * width * size
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                for i in range(count):
                    store_double(state, i, 0.0)
                walk(params, base, coordinates, begin, count, state, 0)
                out = target + begin * size
                if divisor != 0.0:
                    for i in range(count):
                        store(out, i, kind(load_double(state, i) / divisor))
                else:
                    terms = row_terms(params, coordinates)
                    for i in range(count):
                        n = max(terms * load_word(counts + 8 * (begin + i)), 1)
                        store(out, i, kind(load_double(state, i) / n))

    return window_sum


@family("window.weighted")
def window_weighted(item: str) -> KernelFunction:
    """Weighted sums plus bias: convolution with one channel of input per channel of output."""
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

    walk = _walker(visit)

    def window_weighted(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        weights, bias = address(bases, params + WEIGHTS), address(bases, params + BIAS)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(params, x, row, coordinates)
            channel = load_local(coordinates + 8 * load_word(params + CHANNEL))
            start = load(bias + channel * load_word(params + BIAS_BYTES))
            extra = weights + channel * load_word(params + WEIGHT_BYTES)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                out = y + (row * width + begin) * size
                for i in range(count):
                    store(out, i, start)
                walk(params, base, coordinates, begin, count, out, extra)

    return window_weighted


@family("window.max")
def window_max(item: str) -> KernelFunction:
    """Maxima; a NaN is larger than any number, nothing at all gives -inf."""
    take, take_every_other = combine_row(item, "max", 1), combine_row(item, "max", 2)
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    kind = NUMBA[item]
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

    walk = _walker(visit)
    lowest = -math.inf

    def window_max(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block, zeros = load_word(params + ROW_BLOCK), load_word(params + ZEROS)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(params, x, row, coordinates)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                out = y + (row * width + begin) * size
                for i in range(count):
                    store(out, i, kind(lowest))
                walk(params, base, coordinates, begin, count, out, zeros)

    return window_max


@family("window.argmax")
def window_argmax(item: str, index: str, values: bool) -> KernelFunction:
    """Row-major position in the window of the first maximum, and if `values` the maximum.

    A NaN is larger than any number; nothing at all gives 0 and -inf.
    """
    size, load, store = ITEMSIZE[item], LOAD[item], STORE[item]
    index_size, store_index = ITEMSIZE[index], STORE[index]
    kind, index_kind = NUMBA[item], NUMBA[index]
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

    walk = _walker(visit)

    def window_argmax(bases, params, first, last):
        x = address(bases, params + X)
        index_y = address(bases, params + INDEX_Y)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block, zeros = load_word(params + ROW_BLOCK), load_word(params + ZEROS)
        coordinates = at()
        state = best()
        positions = state + positions_at
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(params, x, row, coordinates)
            for begin in range(0, width, CHUNK):
                count = min(CHUNK, width - begin)
                for i in range(count):
                    store(state, i, kind(lowest))
                    store_word(positions, i, -1)
                walk(params, base, coordinates, begin, count, state, zeros)
                out = index_y + (row * width + begin) * index_size
                for i in range(count):
                    store_index(out, i, index_kind(max(load_local(positions, i), 0)))
                if values:
                    out = address(bases, params + Y) + (row * width + begin) * size
                    for i in range(count):
                        store(out, i, load(state, i))

    return window_argmax


@family("window.pad")
def window_pad(item: str) -> KernelFunction:
    """What the only tap meets, or the item at `bias`."""
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

    walk = _walker(visit)

    def window_pad(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        value = address(bases, params + BIAS)
        width, rows = load_word(params + WIDTH), load_word(params + ROWS)
        row_block = load_word(params + ROW_BLOCK)
        coordinates = at()
        for row in range(first * row_block, min(last * row_block, rows)):
            base = locate(params, x, row, coordinates)
            walk(params, base, coordinates, 0, width, y + row * width * size, value)

    return window_pad
