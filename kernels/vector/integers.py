"""Integer arithmetic beyond single instructions; results wrap around."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lanes import Lanes, constant, select


def quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y towards zero; 0 where y is 0; the smallest integer divided by -1 is itself."""
    nothing, bits = y.equals(0), BITS[x.dtype]
    if bits < 64:
        # Vectors divide floats.  A quotient that is not whole never rounds to a whole number: it is
        # at least 1 / |y| away from the next, and rounding moves it by less, as a float has more
        # bits than x.
        wider = "float32" if bits < 24 else "float64"
        exact = convert(x, wider) / convert(y, wider)
        whole = convert(exact, "int64" if x.dtype == "uint32" else "int32")
        result = convert(whole, x.dtype)
        # the only one that is out of range of int32
        return select(nothing, 0, select(y.equals(-1), -x, result) if x.is_signed else result)
    unsafe = nothing | y.equals(-1) if x.is_signed else nothing
    divide = x.v.builder.sdiv if x.is_signed else x.v.builder.udiv
    result = x.same(divide(x.value, select(unsafe, 1, y).value))
    return select(nothing, 0, select(y.equals(-1), -x, result) if x.is_signed else result)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y * (x / y towards zero), with the sign of x; 0 where y is 0."""
    return select(y.equals(0), 0, x - y * quotient(x, y))


def shift_left(x: Lanes, count: Lanes) -> Lanes:
    """Counts are taken modulo the number of bits."""
    return x.same(x.v.builder.shl(x.value, (count & (BITS[x.dtype] - 1)).value))


def shift_right(x: Lanes, count: Lanes) -> Lanes:
    """Counts are taken modulo the number of bits; the sign of signed integers moves in."""
    shift = x.v.builder.ashr if x.is_signed else x.v.builder.lshr
    return x.same(shift(x.value, (count & (BITS[x.dtype] - 1)).value))


def power(x: Lanes, y: Lanes) -> Lanes:
    """x ** y, the lowest bits; towards zero where y is negative, and 0 ** -1 is 0."""
    v, b = x.v, x.v.builder
    result = constant(v, x.dtype, 1)
    # by repeated squaring: one bit of the exponent per iteration
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
