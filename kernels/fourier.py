"""Discrete Fourier transforms of any length: Stockham's algorithm with mixed radices.

As many transforms as a vector has lanes are done at a time, one in each lane: butterflies of any
radix are arithmetic on whole vectors, without shuffles.  A prime radix is a sum over all of its
items; powers of two go by fours.  (Van Loan, Computational Frameworks for the Fast Fourier
Transform, sections 1.7 and 2.3.)
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels import lane_memory
from nnefc.kernels.lanes import Lanes, constant, fma
from nnefc.kernels.memory import ITEMSIZE, LOAD, NUMBER, STORE, address, helper, load_word
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.tile import local_bytes
from nnefc.kernels.vector import Vector, lanes_of, vector_intrinsic

STAGES = 40
"""More than any length has factors."""

FOURIER = Layout(
    "x:ref y:ref window:ref twiddles:ref scratch:ref length bins inner extent frames step "
    "window_begin window_count window_step units groups group_block stages radices:40 tables:40"
)
"""Parameters of `fourier.transform`.

x: [outer, extent, inner, 2], or without the last dimension if it is real; y: [outer, frames, bins,
inner, 2]; frame f of x begins at item f * step.  A frame is multiplied by the window: from its
item `window_begin` on `window_count` items of it, `window_step` apart; 0 elsewhere.  `units`:
transforms, outer * frames * inner; a group is as many as a vector has lanes, twice as many if x is
real; a tile is `group_block` of the `groups`, and has 4 * length vectors of scratch memory.
Stage i has the radix `radices`[i], and its twiddle factors `tables`[i] bytes on (see
`nnefc.lower.fourier`).
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
    STAGE_COUNT,
    RADICES,
    TABLES,
) = FOURIER.offsets

load_local, store_local = LOAD["int64"], STORE["int64"]

Complex = tuple[Lanes, Lanes]


class _Numbers:
    """Complex vectors, and complex numbers in tables, at addresses."""

    def __init__(self, v: Vector, item: str) -> None:
        self.v, self.item = v, item

    def _at(self, base: Any, index: Any, nbytes: int) -> Any:
        return self.v.at(base, self.v.builder.mul(index, self.v.word(nbytes)))

    def load(self, base: Any, index: Any) -> Complex:
        v = self.v
        at = self._at(base, index, 2 * v.nbytes)
        real = lane_memory.load(v, self.item, at)
        return real, lane_memory.load(v, self.item, v.at(at, v.nbytes))

    def store(self, value: Complex, base: Any, index: Any) -> None:
        at = self._at(base, index, 2 * self.v.nbytes)
        lane_memory.store(value[0], at)
        lane_memory.store(value[1], self.v.at(at, self.v.nbytes))

    def number(self, table: Any, index: Any) -> Complex:
        """A number of a table, in every lane."""
        v = self.v
        at = self._at(table, index, 2 * v.itemsize)
        real = lane_memory.load_item(v, self.item, at)
        return real, lane_memory.load_item(v, self.item, v.at(at, v.itemsize))


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _mul(a: Complex, b: Complex) -> Complex:
    return _add_product((-(a[1] * b[1]), a[1] * b[0]), a[0], b)


def _add_product(total: Complex, factor: Lanes, b: Complex) -> Complex:
    """total + factor * b, with a real factor."""
    return fma(factor, b[0], total[0]), fma(factor, b[1], total[1])


def _turned(a: Complex) -> Complex:
    """-i * a"""
    return a[1], -a[0]


def _two(a: list[Complex]) -> list[Complex]:
    return [_add(a[0], a[1]), _sub(a[0], a[1])]


def _four(a: list[Complex]) -> list[Complex]:
    even, odd = _two([a[0], a[2]]), _two([a[1], a[3]])
    turned = _turned(odd[1])
    return [
        _add(even[0], odd[0]),
        _add(even[1], turned),
        _sub(even[0], odd[0]),
        _sub(even[1], turned),
    ]


_BUTTERFLIES = {2: _two, 4: _four}


@cache
def _butterflies(item: str, radix: int) -> Any:
    """Intrinsic `stage(x, y, m, s, table)` of a radix that is 2 or 4.

    For k < m and q < s: y[q + s (radix k + r)] = w[k, r] * (butterfly of x[q + s (k + m j)])[r],
    where w[k, r] = exp(-2 pi i k r / (m radix)).
    """

    @vector_intrinsic(item, lanes_of(item), 5, apart=True)
    def stage(v: Vector, x, y, m, s, table):
        b, numbers = v.builder, _Numbers(v, item)
        x, y, table = (v.pointer(p) for p in (x, y, table))
        jump = b.mul(m, s)
        with v.loop(0, m, 1) as outer:
            k = outer.index
            first = b.mul(k, v.word(radix - 1))
            twiddles = [numbers.number(table, b.add(first, v.word(r))) for r in range(radix - 1)]
            source, target = b.mul(k, s), b.mul(b.mul(k, s), v.word(radix))
            with v.loop(0, s, 1) as inner:
                at = b.add(source, inner.index)
                given: list[Complex] = []
                for _ in range(radix):
                    given.append(numbers.load(x, at))
                    at = b.add(at, jump)
                results = _BUTTERFLIES[radix](given)
                to = b.add(target, inner.index)
                for r, result in enumerate(results):
                    turned = _mul(result, twiddles[r - 1]) if r else result
                    numbers.store(turned, y, to)
                    to = b.add(to, s)

    return stage


@cache
def _sums(item: str) -> Any:
    """Intrinsic `stage(x, y, m, s, table, radix)` of any radix.

    `table`: the powers of exp(-2 pi i / radix), then the twiddle factors as for butterflies.
    """

    @vector_intrinsic(item, lanes_of(item), 6, apart=True)
    def stage(v: Vector, x, y, m, s, table, radix):
        b, numbers = v.builder, _Numbers(v, item)
        x, y, table = (v.pointer(p) for p in (x, y, table))
        jump, one = b.mul(m, s), constant(v, item, 1)
        with v.loop(0, m, 1) as outer, v.loop(0, s, 1) as inner:
            k, q = outer.index, inner.index
            source = b.add(b.mul(k, s), q)
            target = b.add(b.mul(b.mul(k, s), radix), q)
            with v.loop(0, radix, 1) as output:
                r = output.index
                zero = constant(v, item, 0).value
                carried = [zero, zero, source, v.word(0)]
                with v.loop(0, radix, 1, carried) as term:
                    real, imaginary, at, power = term.values
                    a, w = numbers.load(x, at), numbers.number(table, power)
                    total = one.same(real), one.same(imaginary)
                    total = _add_product(total, a[0], w)
                    total = _add_product(total, a[1], (-w[1], w[0]))
                    power = b.add(power, r)
                    wrapped = b.sub(power, radix)
                    power = b.select(b.icmp_signed("<", power, radix), power, wrapped)
                    term.next = [total[0].value, total[1].value, b.add(at, jump), power]
                total = one.same(term.values[0]), one.same(term.values[1])
                # w[k, 0] = 1 is not in the table
                place = b.add(b.mul(k, b.sub(radix, v.word(1))), b.sub(r, v.word(1)))
                is_first = b.icmp_signed("==", r, v.word(0))
                place = b.select(is_first, v.word(0), b.add(place, radix))
                turned = _mul(total, numbers.number(table, place))
                numbers.store(turned, y, b.add(target, b.mul(r, s)))

    return stage


@family("fourier.transform")
def transform(kind: str, item: str) -> KernelFunction:
    """`kind`: forward, inverse, or real: two real frames are the parts of a complex one.

    The inverse is the transform of the parts in the other order.
    """
    load, store, size, number = LOAD[item], STORE[item], ITEMSIZE[item], NUMBER[item]
    lanes = lanes_of(item)
    by_two, by_four, by_any = _butterflies(item, 2), _butterflies(item, 4), _sums(item)
    real = kind == "real"
    group_units = 2 * lanes if real else lanes
    sources, targets = local_bytes(8 * group_units), local_bytes(8 * group_units)
    first_part, second_part = (1, 0) if kind == "inverse" else (0, 1)
    pair, row = 2 * size, 2 * lanes * size
    taken = size if real else pair
    half = number(0.5)

    @helper
    def put(params, values, lane_target, count):
        """Store a group of transforms."""
        pitch = load_word(params + INNER) * pair
        for e in range(load_word(params + BINS)):
            for lane in range(min(lanes, count)):
                at = load_local(lane_target, lane) + e * pitch
                store(at, first_part, load(values + e * row, lane))
                store(at, second_part, load(values + e * row, lanes + lane))

    @helper
    def put_real(params, values, lane_target, count):
        """The same of pairs of frames a and b, where Z = A + iB, and A and B are hermitian."""
        pitch, length = load_word(params + INNER) * pair, load_word(params + LENGTH)
        for e in range(load_word(params + BINS)):
            z, mirrored = values + e * row, values + (length - e) % length * row
            for lane in range(min(lanes, count)):
                real_part, imaginary = load(z, lane), load(z, lanes + lane)
                other_real, other_imaginary = load(mirrored, lane), load(mirrored, lanes + lane)
                at = load_local(lane_target, lane) + e * pitch
                store(at, 0, half * (real_part + other_real))
                store(at, 1, half * (imaginary - other_imaginary))
                if lanes + lane < count:
                    at = load_local(lane_target, lanes + lane) + e * pitch
                    store(at, 0, half * (imaginary + other_imaginary))
                    store(at, 1, half * (other_real - real_part))

    def transform(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        window, twiddles = address(bases, params + WINDOW), address(bases, params + TWIDDLES)
        length, inner = load_word(params + LENGTH), load_word(params + INNER)
        frames, units = load_word(params + FRAMES), load_word(params + UNITS)
        begin, window_step = load_word(params + WINDOW_BEGIN), load_word(params + WINDOW_STEP)
        end = begin + load_word(params + WINDOW_COUNT)
        groups, group_block = load_word(params + GROUPS), load_word(params + GROUP_BLOCK)
        extent, step = load_word(params + EXTENT), load_word(params + STEP)
        stages, lane_source, lane_target = load_word(params + STAGE_COUNT), sources(), targets()
        for tile in range(first, last):
            buffers = address(bases, params + SCRATCH) + tile * 2 * length * row
            for group in range(tile * group_block, min((tile + 1) * group_block, groups)):
                for lane in range(group_units):
                    # lanes that nobody needs do what the last transform does
                    unit = min(group * group_units + lane, units - 1)
                    frame, i = unit // inner, unit % inner
                    begins = frame // frames * extent + frame % frames * step
                    store_local(lane_source, lane, x + (begins * inner + i) * taken)
                    place = frame * load_word(params + BINS) * inner + i
                    store_local(lane_target, lane, y + place * pair)
                source, target = buffers, buffers + length * row
                for e in range(length):
                    weight = number(0)
                    if e >= begin and e < end:
                        weight = load(window, (e - begin) * window_step)
                    for lane in range(lanes):
                        at, offset = source + e * row, e * inner * taken
                        one = load_local(lane_source, lane) + offset
                        if real:
                            other = load_local(lane_source, lanes + lane) + offset
                            store(at, lane, load(one) * weight)
                            store(at, lanes + lane, load(other) * weight)
                        else:
                            store(at, lane, load(one, first_part) * weight)
                            store(at, lanes + lane, load(one, second_part) * weight)
                m, s = length, 1
                for stage in range(stages):
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
                count = units - group * group_units
                if real:
                    put_real(params, source, lane_target, count)
                else:
                    put(params, source, lane_target, count)

    return transform
