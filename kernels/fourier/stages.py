"""The stages of a Fourier transform, with one transform per lane of a vector.

Element e of the transforms is two vectors: real parts, then imaginary parts.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, fma
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

Complex = tuple[Lanes, Lanes]


class Numbers:
    """Loads and stores of complex vectors, and of complex numbers in tables."""

    def __init__(self, v: Vector) -> None:
        self.v = v

    def _at(self, base: Any, index: Any, nbytes: int) -> Any:
        return self.v.at(base, self.v.builder.mul(index, self.v.word(nbytes)))

    def load(self, base: Any, index: Any) -> Complex:
        at = self._at(base, index, 2 * self.v.nbytes)
        return self.v.load(at), self.v.load(at, self.v.nbytes)

    def store(self, value: Complex, base: Any, index: Any) -> None:
        at = self._at(base, index, 2 * self.v.nbytes)
        value[0].store(at)
        value[1].store(at, self.v.nbytes)

    def number(self, table: Any, index: Any) -> Complex:
        """Complex number `index` of a table, in every lane."""
        at = self._at(table, index, 2 * self.v.itemsize)
        return self.v.load_splat(at), self.v.load_splat(at, self.v.itemsize)


def add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def sub(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _mul(a: Complex, b: Complex) -> Complex:
    return _add_product((-(a[1] * b[1]), a[1] * b[0]), a[0], b)


def _add_product(total: Complex, factor: Lanes, b: Complex) -> Complex:
    """total + factor * b, where `factor` is real."""
    return fma(factor, b[0], total[0]), fma(factor, b[1], total[1])


def _turned(a: Complex) -> Complex:
    """-i * a"""
    return a[1], -a[0]


def _two(a: list[Complex]) -> list[Complex]:
    return [add(a[0], a[1]), sub(a[0], a[1])]


def _four(a: list[Complex]) -> list[Complex]:
    even, odd = _two([a[0], a[2]]), _two([a[1], a[3]])
    turned = _turned(odd[1])
    return [
        add(even[0], odd[0]),
        add(even[1], turned),
        sub(even[0], odd[0]),
        sub(even[1], turned),
    ]


_BUTTERFLIES = {2: _two, 4: _four}


@cache
def butterflies(item: str, radix: int) -> Any:
    """Intrinsic `stage(x, y, m, s, table)` of radix 2 or 4.

    For k < m and q < s: y[q + s (radix k + r)] = w[k, r] * (butterfly of x[q + s (k + m j)])[r],
    where w[k, r] = exp(-2 pi i k r / (m radix)).
    """

    @vector_intrinsic(item, lanes_of(item), 5, apart=True)
    def stage(v: Vector, x, y, m, s, table):
        b, numbers = v.builder, Numbers(v)
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
def sums(item: str) -> Any:
    """Intrinsic `stage(x, y, m, s, table, radix)` of any radix.

    `table`: the powers of exp(-2 pi i / radix), then the twiddle factors as in `butterflies`.
    """

    @vector_intrinsic(item, lanes_of(item), 6, apart=True)
    def stage(v: Vector, x, y, m, s, table, radix):
        b, numbers = v.builder, Numbers(v)
        x, y, table = (v.pointer(p) for p in (x, y, table))
        jump = b.mul(m, s)
        with v.loop(0, m, 1) as outer, v.loop(0, s, 1) as inner:
            k, q = outer.index, inner.index
            source = b.add(b.mul(k, s), q)
            target = b.add(b.mul(b.mul(k, s), radix), q)
            with v.loop(0, radix, 1) as output:
                r = output.index
                carried = [v.zero(), v.zero(), source, v.word(0)]
                with v.loop(0, radix, 1, carried) as term:
                    real, imaginary, at, power = term.values
                    a, w = numbers.load(x, at), numbers.number(table, power)
                    total = real, imaginary
                    total = _add_product(total, a[0], w)
                    total = _add_product(total, a[1], (-w[1], w[0]))
                    power = b.add(power, r)
                    wrapped = b.sub(power, radix)
                    power = b.select(b.icmp_signed("<", power, radix), power, wrapped)
                    term.next = [*total, b.add(at, jump), power]
                total = term.values[0], term.values[1]
                # w[k, 0] = 1 is not in the table
                place = b.add(b.mul(k, b.sub(radix, v.word(1))), b.sub(r, v.word(1)))
                is_first = b.icmp_signed("==", r, v.word(0))
                place = b.select(is_first, v.word(0), b.add(place, radix))
                turned = _mul(total, numbers.number(table, place))
                numbers.store(turned, y, b.add(target, b.mul(r, s)))

    return stage
