"""Integer arithmetic that takes several instructions; results wrap around."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes, constant, select, shuffle_two, vector_type


def quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y rounded towards zero; 0 where y is 0; the smallest integer / -1 wraps to itself."""
    nothing, bits = y.equals(0), BITS[x.dtype]
    if bits < 64:
        # Vector units divide only floats.  A quotient that is not whole does not round to a whole
        # number: it is at least 1 / |y| away from one, and rounding moves it by less, because a
        # float has more bits than x.
        wider = "float32" if bits < 24 else "float64"
        exact = convert(x, wider) / convert(y, wider)
        whole = convert(exact, "int64" if x.dtype == "uint32" else "int32")
        result = convert(whole, x.dtype)
        # the smallest int32 / -1 is the only quotient out of range
        return select(nothing, 0, select(y.equals(-1), -x, result) if x.is_signed else result)
    unsafe = nothing | y.equals(-1) if x.is_signed else nothing
    divide = x.v.builder.sdiv if x.is_signed else x.v.builder.udiv
    result = x.same(divide(x.value, select(unsafe, 1, y).value))
    return select(nothing, 0, select(y.equals(-1), -x, result) if x.is_signed else result)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y * (x / y rounded towards zero), with the sign of x; 0 where y is 0."""
    return select(y.equals(0), 0, x - y * quotient(x, y))


def shift_left(x: Lanes, count: Lanes) -> Lanes:
    """x << count, with counts modulo the number of bits."""
    return x.same(x.v.builder.shl(x.value, (count & (BITS[x.dtype] - 1)).value))


def shift_right(x: Lanes, count: Lanes) -> Lanes:
    """x >> count, with counts modulo the number of bits; arithmetic for signed integers."""
    shift = x.v.builder.ashr if x.is_signed else x.v.builder.lshr
    return x.same(shift(x.value, (count & (BITS[x.dtype] - 1)).value))


def doubling_high_product(x: Lanes, y: Lanes) -> Lanes:
    """x * y / 2**31 in int32, rounded to nearest, halves up, and saturated."""
    product = convert(x, "int64") * convert(y, "int64")
    high = convert((product + (1 << 30)) >> 31, "int32")
    # only the product of the smallest int32 with itself is out of range, and gives the smallest
    smallest = constant(x.v, "int32", -(1 << 31))
    return select(high.equals(smallest), ~smallest, high)


def rounding_shift(x: Lanes, count: Lanes) -> Lanes:
    """x / 2**count rounded to nearest, halves away from zero, with counts modulo 32."""
    ones = constant(x.v, x.dtype, -1)
    below = ~shift_left(ones, count)
    rest = x & below
    # half of the divisor, and one more for negative numbers
    half = (below >> 1) - (x >> 31)
    return shift_right(x, count) + select(rest > half, constant(x.v, x.dtype, 1), 0)


def high_words(x: Lanes, y: Lanes, added: tuple[Lanes, Lanes]) -> Lanes:
    """The upper words of x * y plus numbers of int64, for int32.

    `added`: see `wide_numbers`.
    """
    v, pairs = x.v, added[0].v

    def products(shift: int) -> Lanes:
        """The products of the lower or the upper words of pairs."""
        a, b = (_as_pairs(each, pairs) << shift >> 32 for each in (x, y))
        return a * b + added[0 if shift else 1]

    even, odd = (
        x.same(v.builder.bitcast(products(shift).value, x.value.type)) for shift in (32, 0)
    )
    return shuffle_two(even, odd, v, [lane | 1 | v.lanes * (lane % 2) for lane in range(v.lanes)])


def wide_numbers(low: Lanes, high: Lanes) -> tuple[Lanes, Lanes]:
    """The numbers of int64 with these words: those of even lanes, and those of odd lanes."""
    v, pairs = low.v, LaneBuilder(low.v.builder, low.v.lanes // 2)
    even, odd = (
        shuffle_two(
            low, high, v, [(lane & ~1) + first + v.lanes * (lane % 2) for lane in range(v.lanes)]
        )
        for first in (0, 1)
    )
    return _as_pairs(even, pairs), _as_pairs(odd, pairs)


def _as_pairs(x: Lanes, pairs: LaneBuilder) -> Lanes:
    """Pairs of words as int64."""
    return Lanes(pairs, "int64", pairs.builder.bitcast(x.value, vector_type(pairs, "int64")))


def power(x: Lanes, y: Lanes) -> Lanes:
    """x ** y, wrapped around; rounded towards zero if y is negative, with 0 ** -1 = 0."""
    v, b = x.v, x.v.builder
    result = constant(v, x.dtype, 1)
    # repeated squaring: one bit of the exponent per iteration
    with v.loop(0, v.word(BITS[x.dtype]), 1, [result, x, y]) as turn:
        product, square, left = turn.values
        odd = (left & 1).equals(1)
        turn.next = [
            select(odd, product * square, product),
            square * square,
            x.same(b.lshr(left.value, x.wrap(1))),
        ]
    result = turn.values[0]
    if not x.is_signed:
        return result
    sign = select((y & 1).equals(0), x * x, x)  # of 1 and -1, whose powers are whole
    reciprocal = select(x.equals(1) | x.equals(-1), sign, 0)
    return select(y < 0, reciprocal, result)
