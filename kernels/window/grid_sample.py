"""Grid sampling (`torch.nn.functional.grid_sample`): interpolation at coordinates in a tensor.

Coordinates may have any value.  They are clamped to 32 bits, and indices are checked or clamped.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import (
    LOAD,
    NUMBER,
    STORE,
    address,
    floor,
    helper,
    load_word,
    select,
)

GRID = Layout("x:ref grid:ref y:ref channels extents:3 plane points blocks units unit_block")
"""Parameters of `grid_sample.sample`.

x: [batch, channels, ...] with spatial `extents`, `plane` items in all; grid: [batch, points,
spatial dimensions], the last dimension first; y: [batch, channels, points].  A unit is `BLOCK`
points of a batch item, which has `blocks` units; a tile is `unit_block` of `units`.
"""
X, GRID_REF, Y, CHANNELS, EXTENTS, PLANE, POINTS, BLOCKS, UNITS, UNIT_BLOCK = GRID.offsets

BLOCK = 64
"""Points whose taps are computed at a time; then all channels are sampled at these points."""
TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""Taps along a dimension by mode."""
FARTHEST = 2147483648.0
CUBIC_A = -0.75

load_local, store_local = LOAD["int64"], STORE["int64"]
load_weight, store_weight = LOAD["float64"], STORE["float64"]
load_place, store_place, place_number = LOAD["int32"], STORE["int32"], NUMBER["int32"]


def _padded(padding_mode: str, align_corners: bool):
    """Helper `padded(at, extent)`: a coordinate reflected, clamped, or unchanged for zeros."""
    zeros, reflects = padding_mode == "zeros", padding_mode == "reflection"

    @helper
    def padded(at, extent):
        if zeros:
            return at
        if reflects:
            low = 0.0 if align_corners else -0.5
            span = extent - 1.0 if align_corners else float(extent)
            if span == 0.0:
                return 0.0
            turn = max(at - low, low - at)
            turn -= floor(turn / (2.0 * span)) * (2.0 * span)
            at = (2.0 * span - turn if turn > span else turn) + low
        return min(max(at, 0.0), extent - 1.0)

    return padded


@helper
def _cubic(distance):
    """The weight of an item at a signed distance: the cubic kernel of Keys (1981)."""
    x, a = max(distance, -distance), CUBIC_A
    if x <= 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a


@helper
def _nearest_even(at):
    """The nearest whole number, ties to even."""
    low = floor(at)
    offset = at - low
    if offset > 0.5 or (offset == 0.5 and int(low) % 2 != 0):
        return low + 1.0
    return low


@helper
def _put(place, weight, at, share, extent):
    """Store the item and the weight of a tap; the weight is 0 outside the input."""
    inside = at >= 0.0 and at < extent
    store_local(place, int(at) if inside else 0)
    store_weight(weight, share if inside else 0.0)


def _locate(taps: int, padding_mode: str, align_corners: bool, item: str):
    """Helper `locate(value, extent, place, weight)` of the taps of a coordinate."""
    number, padded = NUMBER[item], _padded(padding_mode, align_corners)

    @helper
    def locate(value, extent, place, weight):
        """Store the taps of coordinate `value` along a dimension."""
        if value != value:
            value = number(-FARTHEST)
        at = float(value) + 1.0
        at = (at * (extent - 1) if align_corners else at * extent - 1.0) / 2.0
        at = min(max(at, -FARTHEST), FARTHEST)
        if taps == 4:
            low = floor(at)
            for i in range(4):
                share = _cubic(at - low - (i - 1))
                _put(place + 8 * i, weight + 8 * i, padded(low + (i - 1), extent), share, extent)
            return
        at = padded(at, extent)
        if taps == 1:
            _put(place, weight, _nearest_even(at), 1.0, extent)
        else:
            low = floor(at)
            _put(place, weight, low, 1.0 - (at - low), extent)
            _put(place + 8, weight + 8, low + 1.0, at - low, extent)

    return locate


def _combine(taps: int, rank: int, item: str):
    """Helper `combine(params, place, weight, at, share, p)` of the taps over all dimensions."""
    store, number, total = STORE[item], NUMBER[item], taps**rank

    @helper
    def combine(params, place, weight, at, share, p):
        """Store the items that point p of a block reads, and their weights."""
        for tap in range(total):
            rest, offset, product = tap, 0, 1.0
            for d in range(rank):
                i = 8 * (taps * d + rest % taps)
                rest = rest // taps
                offset = offset * load_word(params + EXTENTS + 8 * d) + load_local(place + i)
                product *= load_weight(weight + i)
            store_place(at, tap * BLOCK + p, place_number(offset))
            store(share, tap * BLOCK + p, number(product))

    return combine


@family()
def sample(
    mode: str, padding_mode: str, align_corners: bool, rank: int, item: str
) -> KernelFunction:
    load, store, number, size = LOAD[item], STORE[item], NUMBER[item], ITEMSIZE[item]
    taps = TAPS[mode]
    total = taps**rank
    locate, combine = _locate(taps, padding_mode, align_corners, item), _combine(taps, rank, item)
    places, weights = local_bytes(8 * taps * rank), local_bytes(8 * taps * rank)
    met, shares = local_bytes(4 * total * BLOCK), local_bytes(size * total * BLOCK)

    def sample(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        grid, points = address(bases, params + GRID_REF), load_word(params + POINTS)
        channels, plane = load_word(params + CHANNELS), load_word(params + PLANE)
        blocks, units = load_word(params + BLOCKS), load_word(params + UNITS)
        unit_block = load_word(params + UNIT_BLOCK)
        place, weight, at, share = places(), weights(), met(), shares()
        for unit in range(first * unit_block, min(last * unit_block, units)):
            batch, begin = unit // blocks, unit % blocks * BLOCK
            count = min(BLOCK, points - begin)
            for p in range(count):
                point = batch * points + begin + p
                for d in range(rank):
                    value = load(grid, (point + 1) * rank - 1 - d)
                    extent = load_word(params + EXTENTS + 8 * d)
                    locate(value, extent, place + 8 * taps * d, weight + 8 * taps * d)
                combine(params, place, weight, at, share, p)
            for c in range(batch * channels, (batch + 1) * channels):
                source, target = x + c * plane * size, y + (c * points + begin) * size
                for p in range(count):
                    result = number(0)
                    for tap in range(total):
                        part = load(share, tap * BLOCK + p)
                        value = load(source, int(load_place(at, tap * BLOCK + p)))
                        # not 0 times the item: it may be infinite
                        result += part * select(part != 0, value, number(0))
                    store(target, p, result)

    return sample
