"""Regions of interest (NNEF, section 4.6): pooling in cells, and resampling.

Regions are data, so coordinates are clamped to 32 bits (NaN becomes 0), cells and positions to the
feature map.  `checked_index` keeps batch indices inside the batch and records wrong ones.
`nnefc.ops.standard.roi` documents the interpretation of the specification.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

import math

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.movement.checked_index import clamped, first_wrong
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, floor, helper, load_word

ROI = Layout(
    "x:ref rois:ref batch_index:ref y:ref batch channels rank extents:6 pitches:6 plane "
    "outputs:6 cells units unit_block shape:table"
)
"""Parameters of the `roi` kernels.

x: [batch, channels, ...] with `rank` spatial dimensions of `extents` and `pitches` (in items),
`plane` items in all; rois: [N, 2 * rank]; batch_index: [N]; y: [N, channels, ...] with spatial
extents `outputs`, `cells` items in all.  A tile is `unit_block` of the `units` = N * channels.
`shape`: see `checked_index`.
"""
(
    X,
    ROIS,
    BATCH_INDEX,
    Y,
    BATCH,
    CHANNELS,
    RANK,
    EXTENTS,
    PITCHES,
    PLANE,
    OUTPUTS,
    CELLS,
    UNITS,
    UNIT_BLOCK,
    SHAPE,
) = ROI.offsets
load_local, store_local = LOAD["int64"], STORE["int64"]
load_position, store_position = LOAD["float64"], STORE["float64"]


def _coordinate(item: str):
    load = LOAD[item]

    @helper
    def coordinate(rois, number):
        """Item `number` of the RoIs, clamped to 32 bits; NaN becomes 0."""
        value = float(load(rois, number))
        if value != value:
            return 0.0
        return min(max(value, -2147483648.0), 2147483648.0)

    return coordinate


def _plane(index: str):
    load_index, record = LOAD[index], first_wrong(index, counts_from_end=False)

    @helper
    def plane(bases, params, unit):
        """The first item of the plane of x that output plane `unit` reads; -1 if x is empty.

        It records a wrong index.
        """
        channels, extent = load_word(params + CHANNELS), load_word(params + BATCH)
        indices = address(bases, params + BATCH_INDEX)
        number = int(load_index(indices, unit // channels))
        batch = clamped(number, extent)
        if batch != number:
            shape, count = params + load_word(params + SHAPE), load_word(params + UNITS) // channels
            record(bases, params, shape, indices, count, params + BATCH, 1)
        items = load_word(params + PLANE)
        return (batch * channels + unit % channels) * items if extent * items != 0 else -1

    return plane


def _cell_bounds(item: str):
    """Helper `bounds(params, rois, roi, cell, low, high, place)`."""
    coordinate = _coordinate(item)

    @helper
    def bounds(params, rois, roi, cell, low, high, place):
        """Store the bounds of a cell clipped to the feature map; returns its number of items."""
        rank, volume = load_word(params + RANK), 1
        for d in range(rank - 1, -1, -1):
            outputs = load_word(params + OUTPUTS + 8 * d)
            start = int(floor(coordinate(rois, 2 * rank * roi + d) + 0.5))
            end = int(floor(coordinate(rois, 2 * rank * roi + rank + d) + 0.5))
            size, stride = -(-(end - start) // outputs), (end - start) // outputs
            begin = start + cell % outputs * stride
            cell = cell // outputs
            stop = min(begin + size, load_word(params + EXTENTS + 8 * d))
            begin = max(begin, 0)
            store_local(low + 8 * d, begin)
            store_local(high + 8 * d, stop)
            store_local(place + 8 * d, begin)
            volume *= max(stop - begin, 0)
        return volume

    return bounds


@helper
def _next_row(params, low, high, place):
    """Advance `place` to the next row of the cell; returns 0 after the last row, else 1."""
    for d in range(load_word(params + RANK) - 2, -1, -1):
        at = load_local(place + 8 * d) + 1
        if at < load_local(high + 8 * d):
            store_local(place + 8 * d, at)
            return 1
        store_local(place + 8 * d, load_local(low + 8 * d))
    return 0


@family()
def pool(kind: str, item: str, index: str) -> KernelFunction:
    """`kind`: avg or max of every cell; 0 for an empty cell."""
    load, store, number = LOAD[item], STORE[item], NUMBER[item]
    bounds, plane = _cell_bounds(item), _plane(index)
    lows, highs, places = local_bytes(64), local_bytes(64), local_bytes(64)
    average, lowest = kind == "avg", -math.inf

    def pool(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        rois, rank = address(bases, params + ROIS), load_word(params + RANK)
        cells, channels = load_word(params + CELLS), load_word(params + CHANNELS)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        low, high, place = lows(), highs(), places()
        inner = 8 * (rank - 1)
        for unit in range(first * unit_block, min(last * unit_block, units)):
            base = plane(bases, params, unit)
            for cell in range(cells):
                volume = bounds(params, rois, unit // channels, cell, low, high, place)
                if volume == 0 or base < 0:
                    store(y, unit * cells + cell, number(0))
                    continue
                total = 0.0 if average else lowest
                more = 1
                while more == 1:
                    row = base
                    for d in range(rank - 1):
                        row += load_local(place + 8 * d) * load_word(params + PITCHES + 8 * d)
                    for i in range(load_local(low + inner), load_local(high + inner)):
                        value = load(x, row + i)
                        if average:
                            total += value
                        elif value > total or value != value:
                            total = float(value)
                    more = _next_row(params, low, high, place)
                if average:
                    total /= volume
                store(y, unit * cells + cell, number(total))

    return pool


@family()
def resample(method: str, item: str, index: str) -> KernelFunction:
    """`method`: symmetric, asymmetric or aligned linear interpolation."""
    load, store, number = LOAD[item], STORE[item], NUMBER[item]
    coordinate, plane = _coordinate(item), _plane(index)
    lows, weights = local_bytes(64), local_bytes(64)
    symmetric, aligned = method == "symmetric", method == "aligned"

    @helper
    def position(start, end, i, count):
        if symmetric:
            return start + (i + 0.5) * (end - start) / count - 0.5
        if aligned:
            return start + i * (end - start - 1.0) / max(count - 1, 1)
        return start + i * (end - start) / count

    @helper
    def locate(params, rois, roi, cell, low, weight):
        """Store the lower neighbour of a sample and the weight of the upper, per dimension."""
        rank = load_word(params + RANK)
        for d in range(rank - 1, -1, -1):
            count = load_word(params + OUTPUTS + 8 * d)
            start = coordinate(rois, 2 * rank * roi + d)
            end = coordinate(rois, 2 * rank * roi + rank + d)
            at = position(start, end, cell % count, count)
            at = min(max(at, 0.0), float(load_word(params + EXTENTS + 8 * d) - 1))
            cell = cell // count
            store_local(low + 8 * d, int(at))
            store_position(weight + 8 * d, at - floor(at))

    def resample(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        rois, rank = address(bases, params + ROIS), load_word(params + RANK)
        cells, channels = load_word(params + CELLS), load_word(params + CHANNELS)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        low, weight = lows(), weights()
        for unit in range(first * unit_block, min(last * unit_block, units)):
            base = plane(bases, params, unit)
            for cell in range(cells):
                locate(params, rois, unit // channels, cell, low, weight)
                total = 0.0
                # a bit of `corner` per dimension: 1 for the upper neighbour
                for corner in range(1 << rank):
                    at, share = base, 1.0
                    for d in range(rank):
                        upper = corner >> d & 1
                        u = load_position(weight + 8 * d)
                        share *= u if upper == 1 else 1.0 - u
                        place = load_local(low + 8 * d) + upper
                        at += place * load_word(params + PITCHES + 8 * d)
                    if share != 0.0 and base >= 0:
                        total += share * load(x, at)
                store(y, unit * cells + cell, number(total))

    return resample
