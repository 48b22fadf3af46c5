"""Elementary functions on vectors of float32.

A function is a range reduction, a polynomial, and selects for special cases, without tables or
calls and almost without branches.  Frequent functions compute in float32 and are defined here;
`math_wide` has the others, which compute in float64.  Infinities, NaN, signed zeros and denormals
are treated as in C.  Errors over the whole range are asserted in
`tests/kernels/vector/test_expression_argument.py` and `tests/kernels/vector/test_math.py`.

Two idioms recur.  Adding 1.5 * 2**23 (1.5 * 2**52 in float64) rounds to the nearest integer and
leaves that integer in the low bits of the sum; a conversion to int would be undefined for NaN.
`select(a < b, a, b)` is b if either is NaN, so the operand that may be NaN is the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from nnefc.kernels.target import isa
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lanes import Lanes, absolute, fma, if_any, polynomial, rounds_once, select
from nnefc.kernels.vector.math_wide import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cosh,
    log2,
    log_ends,
    pow,
    sine,
    sinh,
    tan,
)

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp_nonpositive",
    "log",
    "log2",
    "pow",
    "sigmoid",
    "sigmoid_of_exp",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
]

Quotient = Callable[[Lanes, Lanes], Lanes]
_LOG2E: Final = math.log2(math.e)

_ROUND = 1.5 * 2.0**23
_LN2_HI, _LN2_LO = 0.693359375, 2.12194440e-4
"""ln(2) = _LN2_HI - _LN2_LO; products of _LN2_HI with small integers are exact."""
_BIAS = 127
"""Bias of the exponent of float32."""


def _reduce(x: Lanes, bias: int = 0) -> tuple[Lanes, Lanes]:
    """(n + bias, shifted into the exponent field, and e**r), where e**x = 2**n * e**r.

    n is the nearest integer to x / ln(2).
    """
    t = fma(x, _LOG2E, _ROUND + bias)
    n = t - (_ROUND + bias)
    r = fma(n, -_LN2_HI, x)
    r = fma(n, _LN2_LO, r)
    # minimax for abs(r) <= ln(2) / 2
    y = polynomial(
        r,
        (
            0.0013814467238262296,
            0.008368780836462975,
            0.04166839271783829,
            0.1666651964187622,
            0.4999999403953552,
            1.0,
            1.0,
        ),
    )
    return t.bits() << 23, y


def exp(x: Lanes) -> Lanes:
    """e**x, within 1 ulp, or 1.2 ulp without fused multiply-adds (as all bounds of 1 ulp here)."""
    r = select(x < -104.0, -104.0, x)
    r = select(r > 89.0, 89.0, r)
    n, y = _reduce(r)
    # multiply by 2**n in two steps, so that denormal results are rounded once
    half = (n >> 1) & -(1 << 23)
    one = _BIAS << 23
    return y * (half + one).from_bits() * (n - half + one).from_bits()


def exp_nonpositive(x: Lanes) -> Lanes:
    """e**x, within 1 ulp, for x <= 0 or NaN; 0 where e**x is denormal."""
    r = select(x < -87.33, -87.33, x)
    n, y = _reduce(r, _BIAS)
    return select(x < -87.33, 0.0, y * n.from_bits())


_SQRT_HALF_BITS = 0x3F3504F3


def log(x: Lanes) -> Lanes:
    """Natural logarithm, within 1 ulp."""
    tiny = x < 2.0**-126
    i = select(tiny, x * 2.0**23, x).bits()
    # x = 2**e * (1 + f), with 1 + f in [sqrt(1/2), sqrt(2))
    t = i - _SQRT_HALF_BITS
    e = convert(t >> 23, "float32")
    e = select(tiny, e - 23.0, e)
    f = (i - (t & -0x800000)).from_bits() - 1.0
    # Cephes logf: (log(1 + f) - f + f**2 / 2) / f**3
    tail = polynomial(
        f,
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
    square = f * f
    y = tail * f * square
    y = fma(e, -_LN2_LO, y)
    y = fma(square, -0.5, y)
    return log_ends(x, fma(e, _LN2_HI, f + y))


def quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y, rounded once."""
    return x / y


def _saturating(
    x: Lanes, top: float, over: Sequence[float], under: Sequence[float], divide: Quotient
) -> Lanes:
    """2 h / (1 + h**2) with h = x over(x**2) / under(x**2), for x clamped to abs(x) <= top.

    An odd function with limit 1 has this form for an h with limit 1.  Near the limit the errors of
    h hardly matter, so polynomials of low degree suffice.
    """
    a = select(x < -top, -top, x)
    a = select(a > top, top, a)
    square = a * a
    u, v = a * polynomial(square, over), polynomial(square, under)
    return divide((u + u) * v, fma(u, u, v * v))


def tanh(x: Lanes, divide: Quotient = quotient) -> Lanes:
    """Hyperbolic tangent, within 4 ulp if the quotient of two positive numbers is rounded once."""
    over = (0.00010327417112421244, 0.026927398517727852, 0.904521644115448)
    under = (2.2207407255336875e-06, 0.0021819572430104017, 0.20460832118988037, 1.809043288230896)
    # from 8.8245 on, sums that are rounded twice would give results above 1
    return _saturating(x, 8.824374, over, under, divide)


def erf(x: Lanes, divide: Quotient = quotient) -> Lanes:
    """Error function, within 4 ulp if the quotient is rounded once."""
    over = (
        -6.011081040924182e-06,
        0.0005596198607236147,
        0.017180994153022766,
        0.13928918540477753,
        0.9652108550071716,
    )
    under = (0.003955053165555, 0.06134970113635063, 0.2725854218006134, 1.7107917070388794)
    return _saturating(x, 3.8609724, over, under, divide)


def _exp_of_size(x: Lanes) -> Lanes:
    """e**-abs(x), within 1 ulp, denormal results included."""
    r = (x.bits() | -(1 << 31)).from_bits()  # -abs(x)
    r = select(r < -104.0, -104.0, r)
    # scaled by 2**64 until the last step, for denormal results
    n, y = _reduce(r, _BIAS + 64)
    return y * n.from_bits() * 2.0**-64


def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x), within 3 ulp, denormal results included."""
    return sigmoid_of_exp(x, _exp_of_size(x))


def sigmoid_of_exp(x: Lanes, e: Lanes) -> Lanes:
    """1 / (1 + e**-x) from e = e**-abs(x)."""
    return select(x < 0.0, e, 1.0) / (1.0 + e)


def softplus(x: Lanes) -> Lanes:
    """log(1 + e**x) = max(x, 0) + log(1 + e**-abs(x)), within 3 ulp, denormal results included."""
    e = _exp_of_size(x)
    # log(1 + e) = 2 artanh(e / (2 + e)); minimax for e in [0, 1]
    s = e / (2.0 + e)
    square, s = s * s, s + s
    series = (0.1400599330663681, 0.14000903069972992, 0.2001076340675354, 0.3333320915699005)
    return select(x < 0.0, 0.0, x) + fma(polynomial(square, series), s * square, s)


_PI_HALF = (1.5707963705062866, -4.3711390001862427e-8, -1.7151245100058819e-15)
"""pi/2 as a sum of three float32."""
_SMALL_ANGLE = 2.0**20
"""Largest angle for which reduction by multiples of `_PI_HALF` is accurate to the last place."""


def _sine(x: Lanes, quadrant: int) -> Lanes:
    """sin(x + quadrant * pi/2) for small angles, on machines with fused multiply-adds."""
    t = fma(x, 2.0 / math.pi, _ROUND)
    q = t - _ROUND
    r = x
    for part in _PI_HALF:
        r = fma(q, -part, r)
    z = r * r
    # Cephes sinf and cosf, for abs(r) <= pi/4
    s = polynomial(z, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
    s = fma(s, r * z, r)
    c = polynomial(z, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2))
    c = fma(z * z, c, fma(z, -0.5, 1.0))
    i = t.bits() + quadrant
    y = select((i << 31) < 0, c, s)  # the lowest bit
    return (y.bits() ^ ((i << 30) & -(1 << 31))).from_bits()


def _sine_of_any(x: Lanes, quadrant: int) -> Lanes:
    large = ~(absolute(x) <= _SMALL_ANGLE)
    if not isa.host().fma:
        large |= ~rounds_once(x.v)
    return if_any(large, partial(sine, quadrant, x), partial(_sine, x, quadrant))


def sin(x: Lanes) -> Lanes:
    """Sine, within 2 ulp for every float32."""
    return select(x.equals(0.0), x, _sine_of_any(x, 0))


def cos(x: Lanes) -> Lanes:
    """Cosine, within 2 ulp for every float32."""
    return _sine_of_any(x, 1)
