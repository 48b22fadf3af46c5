"""The loop nest of sliding windows over the taps of an output row.

Source positions are data, a table [taps, outputs] of source indices per dimension.  One loop nest
therefore serves every stride, dilation, padding, border mode and the transposed operations.  The
last dimension is cut into runs of outputs whose sources are evenly spaced, so that a tap is an
operation on rows, which vectorises.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import LOAD, STORE, address, helper, load_word

CHUNK = 512
"""Items of a row computed at a time."""

WINDOW = Layout(
    "x:ref y:ref index_y:ref weights:ref bias:ref rows width outer extents:7 pitches:7 taps:7 "
    "index:ref starts:7 last_taps runs:ref row_block zeros "
    "channels channel_rows weight_bytes bias_bytes divisor:f64 count:ref count_starts:8"
)
"""Parameters of the `window` kernels.

- y: [rows, width] dense; rows are the combinations of `outer` dimensions with output `extents`,
  input `pitches` in bytes and numbers of `taps`
- index: a table [taps, outputs] of source indices per outer dimension (negative: outside), from
  word `starts`; a start of -1 means that output i reads item i
- last_taps, runs: the last dimension, as in `row_major.gemm`
- zeros: whether taps outside the input count as zeros in a maximum
- channels: number of channels; each takes `channel_rows` rows, and has its own weights [taps] and
  bias, of `weight_bytes` and `bias_bytes`
- divisor: divisor of sums, or 0 for the number of terms
- count: number of terms along every dimension, including the last, from word `count_starts`

A tile is `row_block` rows.
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
    CHANNELS,
    CHANNEL_ROWS,
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
"""Bytes of the position of a row.

A word per outer dimension for its coordinate; the number of dimensions with several taps; for each
of these, the last first: address of the source index of the current tap, bytes between source
indices of taps, number of taps, pitch, and number of the current tap.
"""


@helper
def locate(bases, params, x, row, at):
    """Store the position of output row `row` at `at`.

    Returns the address of the input row by the dimensions with one tap, or 0 if it is outside.
    """
    index = address(bases, params + INDEX)
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
    """Address of the input row at the current outer taps, or 0 outside."""
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
    """Step to the next combination of outer taps; returns 0 after the last, else 1."""
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
def row_terms(bases, params, at):
    """Product of the numbers of terms along the outer dimensions, at the position `at`."""
    count = address(bases, params + COUNT)
    terms = 1
    for d in range(load_word(params + OUTER_COUNT)):
        place = load_word(params + COUNT_STARTS + 8 * d) + load_local(at + 8 * d)
        terms *= load_word(count + 8 * place)
    return terms


def tap_loops(visit):
    """Helper `visit_taps(bases, params, base, at, begin, count, state, extra)`.

    For every run of every tap in `count` outputs it calls
    `visit(state, first, count, source, step, number, extra)`.
    `base` and `at` are from `locate`; `first` is relative to `begin`; `source` is 0 outside.
    """

    @helper
    def visit_taps(bases, params, base, at, begin, count, state, extra):
        last_taps = load_word(params + LAST_TAPS)
        runs = address(bases, params + RUNS)
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

    return visit_taps
