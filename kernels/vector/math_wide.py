"""Elementary functions on vectors of float32 that compute in float64.

Short series are accurate to float32 here; these functions are less frequent, so speed matters less.
`nnefc.kernels.vector.math` has the other functions and describes the common method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from nnefc.kernels.target import isa
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import (
    Lanes,
    absolute,
    copysign,
    floor,
    fma,
    polynomial,
    rint,
    select,
    sqrt,
)
from nnefc.kernels.vector.vector_builder import in_chunks

_LOG2E: Final = math.log2(math.e)
_ROUND, _ROUND_BITS = 1.5 * 2.0**52, 0x4338000000000000
_LN2_HI, _LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXP_SERIES = [1 / math.factorial(k) for k in range(12, -1, -1)]


def _through_float64(function: Callable[..., Lanes], *operands: Lanes) -> Lanes:
    """`function` computed in float64 and rounded to float32."""

    def part(*given: Lanes) -> Lanes:
        return convert(function(*(convert(x, "float64") for x in given)), "float32")

    return in_chunks(part, isa.host().float32_lanes, *operands)


def _exp64(x: Lanes) -> Lanes:
    """e**x for x clamped to abs(x) <= 700; relative error 1e-15."""
    r = select(x < -700.0, -700.0, x)
    r = select(r > 700.0, 700.0, r)
    t = fma(r, _LOG2E, _ROUND)
    n = t - _ROUND
    r = fma(n, -_LN2_HI, r)
    r = fma(n, -_LN2_LO, r)
    return polynomial(r, _EXP_SERIES) * ((t.bits() + 1023) << 52).from_bits()


_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LOG_SERIES = [2 / (2 * k + 1) for k in range(9, -1, -1)]


def _split64(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, f) such that x = 2**e * (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for normal x > 0."""
    i = x.bits()
    t = i - _SQRT_HALF_BITS
    e = ((t >> 52) + _ROUND_BITS).from_bits() - _ROUND
    return e, (i - (t & -0x10000000000000)).from_bits() - 1.0


def _log1p_small(f: Lanes) -> Lanes:
    """log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)]: 2 artanh(f / (2 + f)); relative error 1e-15."""
    s = f / (2.0 + f)
    return s * polynomial(s * s, _LOG_SERIES)


def log_ends(x: Lanes, y: Lanes) -> Lanes:
    """A logarithm y of x, with its special values at infinity, zero, negative numbers and NaN."""
    y = select(x.equals(math.inf), x, y)
    y = select(x.equals(0.0), -math.inf, y)
    return select(x >= 0.0, y, math.nan)


def _log64(x: Lanes) -> Lanes:
    """Natural logarithm of a float64 that is normal, infinite, NaN or not positive."""
    e, f = _split64(x)
    return log_ends(x, fma(e, _LN2_HI + _LN2_LO, _log1p_small(f)))


def log2(x: Lanes) -> Lanes:
    """Logarithm to base 2, within 1 ulp; exact for powers of two."""
    e, f = _split64(convert(x, "float64"))
    return log_ends(x, convert(fma(_log1p_small(f), _LOG2E, e), "float32"))


# 2 / pi as a sum of numbers of 28 bits: a float32 times such a number is exact in float64.  The
# product of the largest float32 and the last one still has 69 fraction bits.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E
"""floor(2 / pi * 2**316)."""
_PARTS = [
    (_TWO_OVER_PI >> (316 - 28 * (k + 1)) & ((1 << 28) - 1)) * 2.0 ** (-28 * (k + 1))
    for k in range(7)
]


def _modulo4(x: Lanes) -> Lanes:
    """x minus the nearest multiple of 4, in [-2, 2]; exact."""
    return x - 4.0 * rint(x * 0.25)


def _quadrant(x: Lanes) -> tuple[Lanes, Lanes]:
    """(q, r) such that x = q * pi/2 + r modulo 2 pi, abs(r) <= pi/4, for every finite float32.

    Payne and Hanek's reduction in float64: the product of x with each part of 2/pi is exact, and so
    is its remainder modulo 4 quadrants.
    """
    d = convert(x, "float64")
    t = [_modulo4(d * part) for part in _PARTS]
    tail = t[6] + t[5] + t[4]
    q = rint(tail + t[3] + t[2] + t[1] + t[0])
    f = t[0] - q + t[1] + t[2] + t[3] + tail
    return q, f * (math.pi / 2)


_SIN_SERIES = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)]
_COS_SERIES = [(-1) ** k / math.factorial(2 * k) for k in range(7, -1, -1)]


def _is_odd(q: Lanes) -> Lanes:
    """Whether a whole number is odd; false for infinity."""
    return (2.0 * floor(q * 0.5)).differs(q)


def _sin_of_quadrant(q: Lanes, r: Lanes) -> Lanes:
    """sin(q * pi/2 + r)."""
    z = r * r
    y = select(_is_odd(q), polynomial(z, _COS_SERIES), r * polynomial(z, _SIN_SERIES))
    return select(q - 4.0 * floor(q * 0.25) >= 2.0, -y, y)


def sine(quadrant: int, x: Lanes) -> Lanes:
    """sin(x + quadrant * pi/2), within 1 ulp for every float32; quadrant is 0 or 1."""
    return in_chunks(partial(_sine, quadrant), isa.host().float32_lanes, x)


def _sine(quadrant: int, x: Lanes) -> Lanes:
    q, r = _quadrant(x)
    return convert(_sin_of_quadrant(q + quadrant, r), "float32")


def tan(x: Lanes) -> Lanes:
    """Tangent, within 1 ulp for every float32."""
    return in_chunks(_tan, isa.host().float32_lanes, x)


def _tan(x: Lanes) -> Lanes:
    q, r = _quadrant(x)
    z = r * r
    s, c = r * polynomial(z, _SIN_SERIES), polynomial(z, _COS_SERIES)
    odd = _is_odd(q)
    y = select(odd, -c, s) / select(odd, s, c)
    return select(x.equals(0.0), x, convert(y, "float32"))


_SINH_SERIES = [1 / math.factorial(2 * k + 1) for k in range(5, -1, -1)]


def _sinh64(x: Lanes) -> Lanes:
    e = _exp64(x)
    small = x * polynomial(x * x, _SINH_SERIES)
    return select(absolute(x) < 0.5, small, 0.5 * (e - 1.0 / e))


def sinh(x: Lanes) -> Lanes:
    """Hyperbolic sine, within 1 ulp."""
    return _through_float64(_sinh64, x)


def _cosh64(x: Lanes) -> Lanes:
    e = _exp64(x)
    return 0.5 * (e + 1.0 / e)


def cosh(x: Lanes) -> Lanes:
    """Hyperbolic cosine, within 1 ulp."""
    return _through_float64(_cosh64, x)


_ASINH_SERIES = (-15 / 336, 3 / 40, -1 / 6, 1.0)
_ATANH_SERIES = (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)


def _asinh64(x: Lanes) -> Lanes:
    a = absolute(x)
    y = _log64(a + sqrt(fma(a, a, 1.0)))
    small = a * polynomial(a * a, _ASINH_SERIES)
    return copysign(select(a < 0.01, small, y), x)


def asinh(x: Lanes) -> Lanes:
    """Inverse hyperbolic sine, within 1 ulp."""
    return _through_float64(_asinh64, x)


def _acosh64(x: Lanes) -> Lanes:
    return select(x >= 1.0, _log64(x + sqrt((x - 1.0) * (x + 1.0))), math.nan)


def acosh(x: Lanes) -> Lanes:
    """Inverse hyperbolic cosine, within 1 ulp; NaN below 1."""
    return _through_float64(_acosh64, x)


def _atanh64(x: Lanes) -> Lanes:
    y = 0.5 * _log64((1.0 + x) / (1.0 - x))
    return select(absolute(x) < 0.02, x * polynomial(x * x, _ATANH_SERIES), y)


def atanh(x: Lanes) -> Lanes:
    """Inverse hyperbolic tangent, within 1 ulp; NaN outside [-1, 1]."""
    return _through_float64(_atanh64, x)


_ATAN_SERIES = [(-1) ** k / (2 * k + 1) for k in range(12, -1, -1)]


def _atan64(x: Lanes) -> Lanes:
    """Arc tangent of a float64; relative error 1e-11."""
    a = absolute(x)
    inverse = a > 1.0
    t = select(inverse, 1.0 / a, a)
    t = t / (1.0 + sqrt(fma(t, t, 1.0)))  # half the angle: t <= tan(pi/8)
    y = 2.0 * (t * polynomial(t * t, _ATAN_SERIES))
    return copysign(select(inverse, math.pi / 2 - y, y), x)


def atan(x: Lanes) -> Lanes:
    """Arc tangent, within 1 ulp."""
    return _through_float64(_atan64, x)


def _asin64(x: Lanes) -> Lanes:
    return _atan64(x / sqrt((1.0 - x) * (1.0 + x)))


def asin(x: Lanes) -> Lanes:
    """Arc sine, within 1 ulp; NaN outside [-1, 1]."""
    return _through_float64(_asin64, x)


def _acos64(x: Lanes) -> Lanes:
    return 2.0 * _atan64(sqrt((1.0 - x) / (1.0 + x)))


def acos(x: Lanes) -> Lanes:
    """Arc cosine, within 1 ulp; NaN outside [-1, 1]."""
    return _through_float64(_acos64, x)


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x**y, within 1 ulp; the special cases are those of C (C17, F.10.4.4)."""
    return _through_float64(_pow64, x, y)


def _pow64(x: Lanes, y: Lanes) -> Lanes:
    a = absolute(x)
    e, f = _split64(a)
    logarithm = fma(e, _LN2_HI + _LN2_LO, _log1p_small(f))
    logarithm = select(a.equals(math.inf), math.inf, logarithm)
    logarithm = select(a.equals(0.0), -math.inf, logarithm)
    p = _exp64(y * logarithm)
    p = select(a.equals(1.0), 1.0, p)
    whole = floor(y).equals(y)
    odd = whole & _is_odd(y)
    p = select(odd, copysign(p, x), p)
    p = select((x < 0.0) & ~whole & a.differs(math.inf), math.nan, p)
    p = select(x.is_nan() | y.is_nan(), math.nan, p)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, p)
