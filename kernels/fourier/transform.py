"""Discrete Fourier transforms of any length: Stockham's autosort algorithm with mixed radices.

Each lane of a vector computes its own transform, so that butterflies of any radix are arithmetic on
whole vectors, without shuffles.  An odd prime radix is a direct sum; powers of two use radix 4.
(Stockham, 1966; Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, sections
1.7 and 2.3.)
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.fourier.lanes import collect, deliver, separate
from nnefc.kernels.fourier.stages import butterflies, sums
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word

STAGES = 40
"""Capacity of the tables of stages; no length has more."""

FOURIER = Layout(
    "x:ref y:ref window:ref twiddles:ref scratch:ref length bins inner extent frames step "
    "window_begin window_count window_step units groups group_block weights_bytes buffer_bytes "
    "tile_bytes stages radices:40 tables:40"
)
"""Parameters of `fourier.transform`.

x: [outer, extent, inner, 2], without the last dimension if real; y: [outer, frames, bins, inner,
2].  Frame f of x begins at item f * step.  A frame is multiplied by the window: its items from
`window_begin` on by `window_count` items of the window, `window_step` apart; all others by 0.
`units`: number of transforms, outer * frames * inner.  A group is one transform per lane, or two if
x is real; a tile is `group_block` of the `groups`.  A tile has `tile_bytes` of scratch memory: a
weight for every item of a frame (`weights_bytes`), and three buffers of `buffer_bytes` for length +
lanes complex vectors each.
Stage i has radix `radices`[i]; its twiddle factors are at byte `tables`[i] of `twiddles` (see
`nnefc.lower.movement.fourier`).
"""
(
    X,
    Y,
    WINDOW,
    TWIDDLES,
    SCRATCH,
    LENGTH,
    BINS,
    INNER,
    EXTENT,
    FRAMES,
    STEP,
    WINDOW_BEGIN,
    WINDOW_COUNT,
    WINDOW_STEP,
    UNITS,
    GROUPS,
    GROUP_BLOCK,
    WEIGHTS_BYTES,
    BUFFER_BYTES,
    TILE_BYTES,
    STAGE_COUNT,
    RADICES,
    TABLES,
) = FOURIER.offsets

load_local, store_local = LOAD["int64"], STORE["int64"]


@cache
def _weigh(item: str, parts: int) -> Any:
    """Helper `weigh(bases, params, weights)`; `parts` weights for each item of a frame."""
    load, store, number = LOAD[item], STORE[item], NUMBER[item]

    @helper
    def weigh(bases, params, weights):
        """Store the weight of every item of a frame."""
        window = address(bases, params + WINDOW)
        begin, step = load_word(params + WINDOW_BEGIN), load_word(params + WINDOW_STEP)
        end = begin + load_word(params + WINDOW_COUNT)
        for e in range(load_word(params + LENGTH)):
            weight = number(0)
            if e >= begin and e < end:
                weight = load(window, (e - begin) * step)
            for part in range(parts):
                store(weights, e * parts + part, weight)

    return weigh


@cache
def _locate(group_units: int, taken: int, pair: int) -> Any:
    """Helper `locate(bases, params, group, lane_source, lane_target)`.

    `taken`, `pair`: bytes of an item of the signals and of the transforms.
    """

    @helper
    def locate(bases, params, group, lane_source, lane_target):
        """Store the addresses of the signals of a group, and of their transforms."""
        x, y = address(bases, params + X), address(bases, params + Y)
        inner, frames = load_word(params + INNER), load_word(params + FRAMES)
        for lane in range(group_units):
            # unused lanes repeat the last transform
            unit = min(group * group_units + lane, load_word(params + UNITS) - 1)
            frame, i = unit // inner, unit % inner
            begin = frame // frames * load_word(params + EXTENT)
            begin += frame % frames * load_word(params + STEP)
            store_local(lane_source, lane, x + (begin * inner + i) * taken)
            place = frame * load_word(params + BINS) * inner + i
            store_local(lane_target, lane, y + place * pair)

    return locate


@cache
def _fill(item: str, kind: str, contiguous: bool) -> Any:
    """Helper `fill(params, weights, lane_source, values)`."""
    load, store, size, lanes = LOAD[item], STORE[item], ITEMSIZE[item], lanes_of(item)
    real, inverse = kind == "real", kind == "inverse"
    collect_items = collect(item, inverse)
    parts = 1 if real else 2
    first_part, second_part = (1, 0) if inverse else (0, 1)
    vector, row, taken = lanes * size, 2 * lanes * size, parts * size

    @helper
    def fill(params, weights, lane_source, values):
        """Load the signals of a group into lanes."""
        length, pitch = load_word(params + LENGTH), load_word(params + INNER) * taken
        if contiguous and real:
            collect_items(lane_source, weights, length, values, row)
            collect_items(lane_source + 8 * lanes, weights, length, values + vector, row)
        elif contiguous:
            collect_items(lane_source, weights, 2 * length, values, vector)
        else:
            for e in range(length):
                at, weight = values + e * row, load(weights, e * parts)
                for lane in range(lanes):
                    one = load_local(lane_source, lane) + e * pitch
                    if real:
                        other = load_local(lane_source, lanes + lane) + e * pitch
                        store(at, lane, load(one) * weight)
                        store(at, lanes + lane, load(other) * weight)
                    else:
                        store(at, lane, load(one, first_part) * weight)
                        store(at, lanes + lane, load(one, second_part) * weight)

    return fill


@cache
def _empty(item: str, inverse: bool, contiguous: bool) -> Any:
    """Helper `empty(params, values, lane_target)`."""
    load, store, size, lanes = LOAD[item], STORE[item], ITEMSIZE[item], lanes_of(item)
    deliver_items = deliver(item, inverse)
    first_part, second_part = (1, 0) if inverse else (0, 1)
    pair, row = 2 * size, 2 * lanes * size

    @helper
    def empty(params, values, lane_target):
        """Store the transforms of a group from lanes."""
        bins, pitch = load_word(params + BINS), load_word(params + INNER) * pair
        if contiguous:
            deliver_items(values, 2 * bins, lane_target)
        else:
            for e in range(bins):
                for lane in range(lanes):
                    at = load_local(lane_target, lane) + e * pitch
                    store(at, first_part, load(values + e * row, lane))
                    store(at, second_part, load(values + e * row, lanes + lane))

    return empty


@family()
def transform(kind: str, contiguous: bool, item: str) -> KernelFunction:
    """`kind`: forward, inverse or real; real transforms two real frames as one complex frame.

    The inverse is the transform with real and imaginary parts exchanged.  `contiguous`: inner is 1.
    """
    size, lanes = ITEMSIZE[item], lanes_of(item)
    by_two, by_four, by_any = butterflies(item, 2), butterflies(item, 4), sums(item)
    real, inverse = kind == "real", kind == "inverse"
    separate_signals = separate(item)
    parts = 1 if real else 2
    group_units = 2 * lanes if real else lanes
    sources, targets = local_bytes(8 * group_units), local_bytes(8 * group_units)
    weigh, locate = _weigh(item, parts), _locate(group_units, parts * size, 2 * size)
    fill, empty = _fill(item, kind, contiguous), _empty(item, inverse, contiguous)

    def transform(bases, params, first, last):
        twiddles, length = address(bases, params + TWIDDLES), load_word(params + LENGTH)
        groups, group_block = load_word(params + GROUPS), load_word(params + GROUP_BLOCK)
        buffer, lane_source, lane_target = load_word(params + BUFFER_BYTES), sources(), targets()
        for tile in range(first, last):
            weights = address(bases, params + SCRATCH) + tile * load_word(params + TILE_BYTES)
            weigh(bases, params, weights)
            for group in range(tile * group_block, min((tile + 1) * group_block, groups)):
                source = weights + load_word(params + WEIGHTS_BYTES)
                target, third = source + buffer, source + 2 * buffer
                locate(bases, params, group, lane_source, lane_target)
                fill(params, weights, lane_source, source)
                m, s = length, 1
                for stage in range(load_word(params + STAGE_COUNT)):
                    radix = load_word(params + RADICES + 8 * stage)
                    table = twiddles + load_word(params + TABLES + 8 * stage)
                    m = m // radix
                    if radix == 4:
                        by_four(source, target, m, s, table)
                    elif radix == 2:
                        by_two(source, target, m, s, table)
                    else:
                        by_any(source, target, m, s, table, radix)
                    s *= radix
                    source, target = target, source
                if real:
                    separate_signals(source, target, third, length, load_word(params + BINS))
                    empty(params, target, lane_target)
                    empty(params, third, lane_target + 8 * lanes)
                else:
                    empty(params, source, lane_target)

    return transform
