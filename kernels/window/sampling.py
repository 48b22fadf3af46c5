"""Sampling by indices (NNEF, section 4.3.3) and linear interpolation (section 4.3.4)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.memory import LOAD, NUMBER, STORE, address, helper, load_word

SAMPLE = Layout(
    "x:ref indices:ref y:ref rank outputs:8 pitches:8 taps:8 table:ref starts:8 volume items "
    "unit_block"
)
"""Parameters of `sampling.sample` and `sampling.desample`.

y has `items` items in `rank` dimensions of extents `outputs`; x has `pitches` (in items) along
them.  `table` holds [taps, outputs] source indices per dimension (negative: outside), from word
`starts`; a start of -1 means that output i reads item i.  `volume`: product of `taps`.  A tile is
`unit_block` items.
"""
(
    X,
    INDICES,
    Y,
    RANK,
    EXTENTS,
    PITCHES,
    TAPS,
    TABLE,
    STARTS,
    VOLUME,
    ITEMS,
    UNIT_BLOCK,
) = SAMPLE.offsets
load_local, store_local = LOAD["int64"], STORE["int64"]


@helper
def _coordinates(params, number, at):
    """Store the coordinates of output item `number` at the address `at`."""
    for d in range(load_word(params + RANK) - 1, -1, -1):
        extent = load_word(params + EXTENTS + 8 * d)
        store_local(at + 8 * d, number % extent)
        number = number // extent


@helper
def _source(bases, params, at, tap):
    """The item of x that tap `tap` reads at the coordinates stored at `at`, or -1 outside."""
    table = address(bases, params + TABLE)
    source = 0
    for d in range(load_word(params + RANK) - 1, -1, -1):
        taps = load_word(params + TAPS + 8 * d)
        start, place = load_word(params + STARTS + 8 * d), load_local(at + 8 * d)
        if start >= 0:
            column = tap % taps * load_word(params + EXTENTS + 8 * d)
            place = load_word(table + 8 * (start + column + place))
        tap = tap // taps
        if place < 0:
            return -1
        source += place * load_word(params + PITCHES + 8 * d)
    return source


@family()
def sample(item: str, index: str) -> KernelFunction:
    """y = the item at the index of a tap; 0 if the index is not a tap or the tap is outside."""
    load, store, kind = LOAD[item], STORE[item], NUMBER[item]
    load_index, local = LOAD[index], local_bytes(64)

    def sample(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        indices = address(bases, params + INDICES)
        volume, items = load_word(params + VOLUME), load_word(params + ITEMS)
        unit_block = load_word(params + UNIT_BLOCK)
        at = local()
        for i in range(first * unit_block, min(last * unit_block, items)):
            tap = int(load_index(indices, i))
            source = -1
            if 0 <= tap < volume:
                _coordinates(params, i, at)
                source = _source(bases, params, at, tap)
            if source < 0:
                store(y, i, kind(0))
            else:
                store(y, i, load(x, source))

    return sample


@family()
def desample(item: str, index: str) -> KernelFunction:
    """y = the sum of all items whose index selects the output."""
    load, store, kind = LOAD[item], STORE[item], NUMBER[item]
    load_index, local = LOAD[index], local_bytes(64)

    def desample(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        indices = address(bases, params + INDICES)
        volume, items = load_word(params + VOLUME), load_word(params + ITEMS)
        unit_block = load_word(params + UNIT_BLOCK)
        at = local()
        for i in range(first * unit_block, min(last * unit_block, items)):
            _coordinates(params, i, at)
            total = 0.0
            for tap in range(volume):
                source = _source(bases, params, at, tap)
                if source >= 0 and int(load_index(indices, source)) == tap:
                    total += load(x, source)
            store(y, i, kind(total))

    return desample


INTERPOLATE = Layout(
    "x:ref y:ref outer extent outputs inner low:ref high:ref weight:ref unit_block"
)
"""Parameters of `sampling.interpolate`, along one dimension.

y[:, o] = x[:, low[o]] * (1 - w) + x[:, high[o]] * w with w = weight[o], a float64; x: [outer,
extent, inner], y: [outer, outputs, inner].  Items at a negative index are 0.  A tile is
`unit_block` of the outer * outputs rows.
"""
I_X, I_Y, OUTER, EXTENT, OUTPUTS, INNER, LOW, HIGH, WEIGHT, ROW_BLOCK = INTERPOLATE.offsets


@family()
def interpolate(item: str) -> KernelFunction:
    load, store, kind, size = LOAD[item], STORE[item], NUMBER[item], ITEMSIZE[item]
    load_weight = LOAD["float64"]

    @helper
    def fetch(row, i):
        return load(row, i) if row != 0 else kind(0)

    def interpolate(bases, params, first, last):
        x, y = address(bases, params + I_X), address(bases, params + I_Y)
        extent, outputs = load_word(params + EXTENT), load_word(params + OUTPUTS)
        inner, block = load_word(params + INNER), load_word(params + ROW_BLOCK)
        low, high = address(bases, params + LOW), address(bases, params + HIGH)
        weights = address(bases, params + WEIGHT)
        rows = load_word(params + OUTER) * outputs
        for row in range(first * block, min(last * block, rows)):
            o, base = row % outputs, x + row // outputs * extent * inner * size
            lower, upper = load_word(low + 8 * o), load_word(high + 8 * o)
            weight = load_weight(weights + 8 * o)
            a = base + lower * inner * size if lower >= 0 else 0
            b = base + upper * inner * size if upper >= 0 else 0
            out = y + row * inner * size
            if weight == 0.0:
                # without 0 * b, as b may be infinite
                for i in range(inner):
                    store(out, i, fetch(a, i))
            elif a != 0 and b != 0:
                u, v = kind(1.0 - weight), kind(weight)
                for i in range(inner):
                    store(out, i, u * load(a, i) + v * load(b, i))
            else:
                u, v = kind(1.0 - weight), kind(weight)
                for i in range(inner):
                    store(out, i, u * fetch(a, i) + v * fetch(b, i))

    return interpolate


BLEND = Layout("x:ref y:ref outer extent outputs inner taps index:ref weight:ref row_block")
"""Parameters of `sampling.blend`, along one dimension.

y[:, o] = the sum over t of x[:, index[o, t]] * weight[o, t], where weights are float64; x: [outer,
extent, inner], y: [outer, outputs, inner].  A tile is `row_block` of the outer * outputs rows.
"""
B_X, B_Y, B_OUTER, B_EXTENT, B_OUTPUTS, B_INNER, B_TAPS, INDEX, B_WEIGHT, B_ROW_BLOCK = (
    BLEND.offsets
)


@family()
def blend(item: str) -> KernelFunction:
    load, store, kind, size = LOAD[item], STORE[item], NUMBER[item], ITEMSIZE[item]
    load_weight = LOAD["float64"]

    def blend(bases, params, first, last):
        x, y = address(bases, params + B_X), address(bases, params + B_Y)
        extent, outputs = load_word(params + B_EXTENT), load_word(params + B_OUTPUTS)
        inner, block = load_word(params + B_INNER), load_word(params + B_ROW_BLOCK)
        count = load_word(params + B_TAPS)
        index, weights = address(bases, params + INDEX), address(bases, params + B_WEIGHT)
        rows = load_word(params + B_OUTER) * outputs
        for row in range(first * block, min(last * block, rows)):
            o, base = row % outputs * count, x + row // outputs * extent * inner * size
            out = y + row * inner * size
            for i in range(inner):
                store(out, i, kind(0))
            for t in range(o, o + count):
                weight = kind(load_weight(weights + 8 * t))
                source = base + load_word(index + 8 * t) * inner * size
                # without 0 times an item, which may be infinite
                if weight != 0:
                    for i in range(inner):
                        store(out, i, load(out, i) + weight * load(source, i))

    return blend
