"""Elementary functions on float32, as straight-line code that the loop vectoriser takes.

No branches, no tables, no calls: range reduction, a polynomial, selects for the ends.
What is used most (exp, log, tanh, sigmoid) computes in float32; the rest goes through
float64, where short series give all the accuracy that float32 has.  Infinities, NaN, signed
zeros and denormals come out as in C.  Errors over the whole range are asserted in
`tests/test_kernels_scalar.py`.

Two tricks recur.  Adding 1.5 * 2**23 (2**52 in float64) rounds to the nearest integer and leaves
that integer in the low bits of the sum, without a conversion that is undefined for NaN.
And `select(a < b, a, b)` gives b when a comparison with NaN fails, so the operand that
may be NaN stands last.
"""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (numba infers the types)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.kernels.memory import (
    bits_float32,
    bits_float64,
    copysign,
    fabs,
    float32_bits,
    float64_bits,
    floor,
    fma,
    helper,
    rint,
    select,
    sqrt,
)

_F = np.float32


def _polynomial(dtype: type[np.floating[Any]], coefficients: Sequence[float]) -> Any:
    """`p(x)` by Horner's rule, highest power first."""
    scope: dict[str, Any] = {f"c{i}": dtype(c) for i, c in enumerate(coefficients)}
    scope["fma"] = fma
    steps = [f"    y = fma(y, x, c{i})" for i in range(1, len(coefficients))]
    exec("\n".join(["def polynomial(x):", "    y = c0", *steps, "    return y"]), scope)
    return helper(scope["polynomial"])


# -- in float32

_LOG2E, _LN2_HI, _LN2_LO = _F(math.log2(math.e)), _F(0.693359375), _F(-2.12194440e-4)
_ROUND, _ROUND_BITS = _F(12582912.0), np.int32(0x4B400000)
_ZERO, _HALF, _ONE = _F(0.0), _F(0.5), _F(1.0)
_INFINITY, _NAN = _F(np.inf), _F(np.nan)
_exp_tail = _polynomial(
    _F,
    # Cephes expf: (e**r - 1 - r) / r**2 for abs(r) <= ln(2) / 2
    (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ),
)
_EXP_MIN, _EXP_MAX = _F(-104.0), _F(89.0)


@helper
def exp(x):
    """e**x, within 1 ulp."""
    r = select(x < _EXP_MIN, _EXP_MIN, x)
    r = select(r > _EXP_MAX, _EXP_MAX, r)
    t = fma(r, _LOG2E, _ROUND)
    n = t - _ROUND
    r = fma(n, -_LN2_HI, r)
    r = fma(n, -_LN2_LO, r)
    y = fma(_exp_tail(r), r * r, r) + _ONE
    # 2**n in two halves, so that denormal results are rounded once.
    i = np.int32(float32_bits(t) - _ROUND_BITS)
    half = np.int32(i >> 1)
    rest = np.int32(i - half)
    y = y * bits_float32(np.int32((half + 127) << 23))
    return y * bits_float32(np.int32((rest + 127) << 23))


_TINY, _TWO23 = _F(1.17549435e-38), _F(2.0**23)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
_log_tail = _polynomial(
    _F,
    # Cephes logf: (log(1 + f) - f + f**2 / 2) / f**3 for 1 + f in [sqrt(1/2), sqrt(2)]
    (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ),
)


@helper
def _split(x):
    """(e, f): x = 2**e * (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)); x > 0 and finite."""
    tiny = x < _TINY
    i = float32_bits(select(tiny, x * _TWO23, x))
    t = np.int32(i - _SQRT_HALF_BITS)
    e = _F(np.int32(t >> 23))
    f = bits_float32(np.int32(i - (t & np.int32(-0x800000)))) - _ONE
    return select(tiny, e - _F(23.0), e), f


@helper
def _log_ends(x, y):
    """`y`, or what a logarithm is at infinity, zero, and below."""
    y = select(x == _INFINITY, x, y)
    y = select(x == _ZERO, -_INFINITY, y)
    return select(x >= _ZERO, y, _NAN)


@helper
def log(x):
    """Natural logarithm, within 1 ulp."""
    e, f = _split(x)
    f2 = f * f
    y = _log_tail(f) * f * f2
    y = fma(e, _LN2_LO, y)
    y = fma(f2, -_HALF, y)
    y = fma(e, _LN2_HI, f + y)
    return _log_ends(x, y)


# Rational fit x * P(x**2) / Q(x**2) for abs(x) <= 9; beyond, tanh is 1 in float32.
_TANH_MAX = _F(9.0)
_tanh_over = _polynomial(
    _F,
    (
        1.3354352290662064e-08,
        2.0608851627912372e-05,
        0.0034955739974975586,
        0.1338101327419281,
        1.0,
    ),
)
_tanh_under = _polynomial(
    _F,
    (
        7.776429242767335e-07,
        0.00032856117468327284,
        0.025876928120851517,
        0.46714329719543457,
        1.0,
    ),
)


@helper
def tanh(x):
    """Hyperbolic tangent, within 6 ulp (4e-7)."""
    a = select(x < -_TANH_MAX, -_TANH_MAX, x)
    a = select(a > _TANH_MAX, _TANH_MAX, a)
    t = a * a
    y = a * _tanh_over(t) / _tanh_under(t)
    y = select(y < -_ONE, -_ONE, y)
    return select(y > _ONE, _ONE, y)


@helper
def sigmoid(x):
    """1 / (1 + e**-x), within 3 ulp, small results included."""
    e = exp(-fabs(x))
    return select(x < _ZERO, e, _ONE) / (_ONE + e)


# -- through float64

_D = np.float64
_ROUND64, _ROUND64_BITS = _D(1.5 * 2.0**52), np.int64(0x4338000000000000)
_LN2_HI64, _LN2_LO64 = _D(6.93147180369123816490e-01), _D(1.90821492927058770002e-10)
_LOG2E64 = _D(math.log2(math.e))
_exp64_series = _polynomial(_D, [1 / math.factorial(k) for k in range(12, -1, -1)])
_EXP64_MAX = _D(700.0)


@helper
def _exp64(x):
    """e**x for abs(x) <= 700, clamped there; relative error 1e-15."""
    r = select(x < -_EXP64_MAX, -_EXP64_MAX, x)
    r = select(r > _EXP64_MAX, _EXP64_MAX, r)
    t = fma(r, _LOG2E64, _ROUND64)
    n = t - _ROUND64
    r = fma(n, -_LN2_HI64, r)
    r = fma(n, -_LN2_LO64, r)
    return _exp64_series(r) * bits_float64((float64_bits(t) + 1023) << 52)


_SQRT_HALF_BITS64 = np.int64(0x3FE6A09E667F3BCD)
_log64_series = _polynomial(_D, [2 / (2 * k + 1) for k in range(9, -1, -1)])


@helper
def _split64(x):
    """(e, f) as `_split`; x is normal."""
    i = float64_bits(x)
    t = i - _SQRT_HALF_BITS64
    e = bits_float64((t >> 52) + _ROUND64_BITS) - _ROUND64
    return e, bits_float64(i - (t & np.int64(-0x10000000000000))) - 1.0


@helper
def _log1p_small(f):
    """log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)]: 2 artanh(f / (2 + f)); relative error 1e-15."""
    s = f / (2.0 + f)
    return s * _log64_series(s * s)


@helper
def _log64(x):
    """Natural logarithm of a float64 that is normal, infinite, NaN or not positive."""
    e, f = _split64(x)
    y = fma(e, _LN2_HI64 + _LN2_LO64, _log1p_small(f))
    y = select(x == np.inf, x, y)
    y = select(x == 0.0, -np.inf, y)
    return select(x >= 0.0, y, np.nan)


@helper
def sigmoid_of_exp(x, e):
    """1 / (1 + e**-x) in float64, given e = e**-abs(x)."""
    return select(x < 0.0, e, 1.0) / (1.0 + e)


@helper
def log2(x):
    """Logarithm to base 2, within 1 ulp; exact for powers of two."""
    e, f = _split64(_D(x))
    return _log_ends(x, _F(fma(_log1p_small(f), _LOG2E64, e)))


@helper
def softplus(x):
    """log(1 + e**x) = max(x, 0) + log(1 + e**-abs(x)), within 1 ulp."""
    d = _D(x)
    e = _exp64(-fabs(d))
    # log(1 + e) for e in (0, 1]: the sum loses what e has below 1e-16, where it is e itself.
    tail = select(e < 1e-8, e, _log64(1.0 + e))
    return _F(select(d > 0.0, d, 0.0) + tail)


# 2 / pi in parts of 28 bits: a float32 times a part is exact in float64.  The product of the
# largest float32 and the last part still has 69 bits behind the point.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E
"""floor(2 / pi * 2**316)."""
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = (
    _D((_TWO_OVER_PI >> (316 - 28 * (k + 1)) & ((1 << 28) - 1)) * 2.0 ** (-28 * (k + 1)))
    for k in range(7)
)


@helper
def _modulo4(x):
    """x without a multiple of 4: in [-2, 2], exact."""
    return x - 4.0 * rint(x * 0.25)


@helper
def _quadrant(x):
    """(q, r): x = q * pi/2 + r modulo 2 pi, abs(r) <= pi/4; for every finite float32.

    Payne and Hanek's reduction without integers: each part of 2/pi times x is exact, and so is
    what remains of it modulo 4 quadrants.
    """
    d = _D(x)
    t0, t1, t2, t3 = _modulo4(d * _P0), _modulo4(d * _P1), _modulo4(d * _P2), _modulo4(d * _P3)
    t4, t5, t6 = _modulo4(d * _P4), _modulo4(d * _P5), _modulo4(d * _P6)
    tail = (t6 + t5) + t4
    q = rint((((tail + t3) + t2) + t1) + t0)
    f = ((((t0 - q) + t1) + t2) + t3) + tail
    return q, f * (math.pi / 2)


_sin_series = _polynomial(_D, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
_cos_series = _polynomial(_D, [(-1) ** k / math.factorial(2 * k) for k in range(7, -1, -1)])


@helper
def _sin_of_quadrant(q, r):
    """sin(q * pi/2 + r)."""
    z = r * r
    odd = q - 2.0 * floor(q * 0.5) != 0.0
    y = select(odd, _cos_series(z), r * _sin_series(z))
    return select(q - 4.0 * floor(q * 0.25) >= 2.0, -y, y)


@helper
def sin(x):
    """Sine, within 1 ulp for every float32."""
    q, r = _quadrant(x)
    return select(x == _ZERO, x, _F(_sin_of_quadrant(q, r)))


@helper
def cos(x):
    """Cosine, within 1 ulp for every float32."""
    q, r = _quadrant(x)
    return _F(_sin_of_quadrant(q + 1.0, r))


@helper
def tan(x):
    """Tangent, within 1 ulp for every float32."""
    q, r = _quadrant(x)
    z = r * r
    s, c = r * _sin_series(z), _cos_series(z)
    odd = q - 2.0 * floor(q * 0.5) != 0.0
    y = select(odd, -c, s) / select(odd, s, c)
    return select(x == _ZERO, x, _F(y))


_sinh_series = _polynomial(_D, [1 / math.factorial(2 * k + 1) for k in range(5, -1, -1)])


@helper
def sinh(x):
    """Hyperbolic sine, within 1 ulp."""
    d = _D(x)
    e = _exp64(d)
    y = select(fabs(d) < 0.5, d * _sinh_series(d * d), 0.5 * (e - 1.0 / e))
    return _F(y)


@helper
def cosh(x):
    """Hyperbolic cosine, within 1 ulp."""
    e = _exp64(_D(x))
    return _F(0.5 * (e + 1.0 / e))


_asinh_series = _polynomial(_D, (-15 / 336, 3 / 40, -1 / 6, 1.0))
_atanh_series = _polynomial(_D, (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0))


@helper
def asinh(x):
    """Inverse hyperbolic sine, within 1 ulp."""
    d = fabs(_D(x))
    y = _log64(d + sqrt(fma(d, d, 1.0)))
    y = select(d < 0.01, d * _asinh_series(d * d), y)
    return _F(copysign(y, _D(x)))


@helper
def acosh(x):
    """Inverse hyperbolic cosine, within 1 ulp; NaN below 1."""
    d = _D(x)
    return _F(select(d >= 1.0, _log64(d + sqrt((d - 1.0) * (d + 1.0))), np.nan))


@helper
def atanh(x):
    """Inverse hyperbolic tangent, within 1 ulp; NaN outside [-1, 1]."""
    d = _D(x)
    y = 0.5 * _log64((1.0 + d) / (1.0 - d))
    return _F(select(fabs(d) < 0.02, d * _atanh_series(d * d), y))


_atan_series = _polynomial(_D, [(-1) ** k / (2 * k + 1) for k in range(12, -1, -1)])


@helper
def _atan64(x):
    """Arc tangent of a float64; relative error 1e-11."""
    a = fabs(x)
    inverse = a > 1.0
    t = select(inverse, 1.0 / a, a)
    t = t / (1.0 + sqrt(fma(t, t, 1.0)))  # half the angle: t <= tan(pi/8)
    y = 2.0 * (t * _atan_series(t * t))
    return copysign(select(inverse, math.pi / 2 - y, y), x)


@helper
def atan(x):
    """Arc tangent, within 1 ulp."""
    return _F(_atan64(_D(x)))


@helper
def asin(x):
    """Arc sine, within 1 ulp; NaN outside [-1, 1]."""
    d = _D(x)
    return _F(_atan64(d / sqrt((1.0 - d) * (1.0 + d))))


@helper
def acos(x):
    """Arc cosine, within 1 ulp; NaN outside [-1, 1]."""
    d = _D(x)
    return _F(2.0 * _atan64(sqrt((1.0 - d) / (1.0 + d))))


@helper
def pow(x, y):
    """x**y, within 1 ulp; the special cases are those of C (C17, F.10.4.4)."""
    a, d = fabs(_D(x)), _D(y)
    e, f = _split64(a)
    logarithm = fma(e, _LN2_HI64 + _LN2_LO64, _log1p_small(f))
    logarithm = select(a == np.inf, np.inf, logarithm)
    logarithm = select(a == 0.0, -np.inf, logarithm)
    p = _exp64(d * logarithm)
    p = select(a == 1.0, 1.0, p)
    whole = floor(d) == d
    odd = whole & (floor(0.5 * d) * 2.0 != d)
    p = select(odd, copysign(p, _D(x)), p)
    p = select((x < _ZERO) & (not whole), select(a == np.inf, p, np.nan), p)
    p = select((x != x) | (y != y), np.nan, p)
    return _F(select((y == _ZERO) | (x == _ONE), 1.0, p))
