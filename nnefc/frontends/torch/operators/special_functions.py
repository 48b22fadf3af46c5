"""Functions that are composed of elementary ones.

Gamma functions and others that lose digits on the way are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.item_types import DEFAULT_REAL, common, in_reals, result_type, tensor
from nnefc.frontends.torch.operators.elementwise import binary
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType, Value

Function = Callable[[OpBuilder, Operand], Operand]


def choose(make: OpBuilder, condition: Operand, x: Number, y: Number) -> Any:
    """`x` where a condition holds, else `y`; one of both may be a number."""
    dtype = (x if isinstance(x, Value | KnownTensor) else y).type.dtype
    return make("select", condition, tensor(make, x, dtype), tensor(make, y, dtype))


def polynomial(make: OpBuilder, x: Operand, coefficients: Sequence[float]) -> Operand:
    """A polynomial by Horner's rule, the coefficient of the highest power first."""
    first, *rest = coefficients
    y: Any = first
    for each in rest:
        y = make("add", make("mul", x, y), each)
    return y


def _in_reals(*overloads: str) -> Callable[[Function], Function]:
    """Register a function of reals, in its own item type."""

    def register(function: Function) -> Function:
        def compute(make: OpBuilder, self: Operand) -> Any:
            return function(make, in_reals(make, self))

        operator(*(f"aten.{each}.default" for each in overloads))(compute)
        return function

    return register


def _in_doubles(*overloads: str) -> Callable[[Function], Function]:
    """Register a function of reals, which is computed in float64."""

    def register(function: Function) -> Function:
        def compute(make: OpBuilder, self: Operand) -> Any:
            x = in_reals(make, self)
            return make.cast(function(make, make.cast(x, DType.FLOAT64)), x.type.dtype)

        operator(*(f"aten.{each}.default" for each in overloads))(compute)
        return function

    return register


# -- exponentials and logarithms


@_in_reals("log1p", "special_log1p")
def log1p(make: OpBuilder, x: Operand) -> Operand:
    """log(1 + x), by Kahan's correction of the rounding of 1 + x (HP-15C manual, 1982)."""
    u = make("add", x, 1.0)
    rounded = make("sub", u, 1.0)
    corrected = make("mul", make("log", u), make("div", x, rounded))
    known = choose(make, make("eq", rounded, 0.0), x, corrected)
    return choose(make, make("eq", u, math.inf), u, known)


@_in_reals("expm1", "special_expm1")
def expm1(make: OpBuilder, x: Operand) -> Operand:
    """exp(x) - 1, by Kahan's correction of the rounding of exp(x)."""
    u = make("exp", x)
    rounded = make("sub", u, 1.0)
    corrected = make("mul", rounded, make("div", x, make("log", u)))
    known = choose(make, make("eq", rounded, 0.0), x, corrected)
    is_far = make("or", make("gt", x, 1.0), make("lt", x, -5.0))
    return choose(make, is_far, rounded, known)


@_in_reals("exp2", "special_exp2")
def exp2(make: OpBuilder, x: Operand) -> Operand:
    return make("pow", tensor(make, 2.0, x.type.dtype), x)


@_in_reals("log10")
def log10(make: OpBuilder, x: Operand) -> Operand:
    return make("mul", make("log", x), 1 / math.log(10.0))


def log_of_sum(make: OpBuilder, x: Operand, y: Operand, base: float = 1.0) -> Operand:
    """log(exp(x) + exp(y)); `base` is the natural logarithm of the base."""
    most, least = make("max", x, y), make("min", x, y)
    distance = make("mul", make("sub", least, most), base)
    sums = make("add", most, make("mul", log1p(make, make("exp", distance)), 1 / base))
    return choose(make, make("eq", x, y), make("add", x, math.log(2.0) / base), sums)


def _log_of_sum(name: str, base: float) -> None:
    """Register the logarithm of a sum of two powers."""

    def compute(make: OpBuilder, self: Operand, other: Operand) -> Any:
        x, y = common(make, self, other)
        return log_of_sum(make, x, y, base)

    operator(f"aten.{name}.default")(compute)


_log_of_sum("logaddexp", 1.0)
_log_of_sum("logaddexp2", math.log(2.0))


@operator("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self")
def xlogy(make: OpBuilder, self: Number, other: Number) -> Any:
    """x log(y), and 0 for x = 0 if y is a number."""
    a, b = _reals(make, self, other)
    product = make("mul", a, make("log", b))
    zero = make("and", make("eq", a, 0.0), make("eq", b, b))
    return choose(make, zero, tensor(make, 0.0, a.type.dtype), product)


# -- two operands


def _reals(make: OpBuilder, x: Number, y: Number) -> list[Operand]:
    """Operands of their common real type."""
    dtype = result_type(x, y)
    return common(make, x, y, dtype=dtype if dtype.is_float else DEFAULT_REAL)


def is_negative(make: OpBuilder, x: Operand) -> Operand:
    """Whether the sign of reals is set, also that of -0."""
    below = make("lt", x, 0.0)
    return make("or", below, make("lt", make("rcp", x), 0.0))


@operator("aten.signbit.default")
def signbit(make: OpBuilder, self: Operand) -> Any:
    if self.type.dtype.is_float:
        return is_negative(make, self)
    if self.type.dtype.is_signed:
        return make("lt", self, 0)
    return make("ne", make.cast(self, DType.INT64), make.cast(self, DType.INT64))


@operator("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(make: OpBuilder, self: Number, other: Number) -> Any:
    a, b = _reals(make, self, other)
    size = make("abs", a)
    return choose(make, is_negative(make, b), make("neg", size), size)


@operator("aten.atan2.default")
def atan2(make: OpBuilder, self: Operand, other: Operand) -> Any:
    """The angle of (x, y) = (`other`, `self`)."""
    y, x = _reals(make, self, other)
    both = make("and", make("is_inf", x), make("is_inf", y))
    ratio = make("div", choose(make, both, make("sign", y), y), x)
    ratio = choose(make, both, make("div", make("sign", y), make("sign", x)), ratio)
    angle = make("atan", ratio)
    pi = tensor(make, math.pi, y.type.dtype)
    turned = choose(make, is_negative(make, y), -math.pi, pi)
    behind = choose(make, is_negative(make, x), make("add", angle, turned), angle)
    origin = choose(make, is_negative(make, x), turned, make("mul", y, 0.0))
    nowhere = make("and", make("eq", x, 0.0), make("eq", y, 0.0))
    return choose(make, nowhere, origin, behind)


@operator("aten.hypot.default")
def hypot(make: OpBuilder, self: Operand, other: Operand) -> Any:
    """sqrt(x^2 + y^2), scaled so that squares do not overflow."""
    a, b = (make("abs", each) for each in _reals(make, self, other))
    most, least = make("max", a, b), make("min", a, b)
    ratio = make("div", least, most)
    length = make("mul", most, make("sqrt", make("add", make("sqr", ratio), 1.0)))
    length = choose(make, make("eq", most, 0.0), most, length)
    endless = make("or", make("is_inf", a), make("is_inf", b))
    return choose(make, endless, math.inf, length)


def _fuller(name: str, operation: str) -> None:
    """Register an extreme of two operands that passes NaN over."""

    def compute(make: OpBuilder, self: Operand, other: Operand) -> Any:
        a, b = common(make, self, other)
        if not a.type.dtype.is_float:
            return binary(make, operation, a, b)
        both = make(operation, a, b)
        both = choose(make, make("is_nan", b), a, both)
        return choose(make, make("is_nan", a), b, both)

    operator(f"aten.{name}.default")(compute)


_fuller("fmax", "max")
_fuller("fmin", "min")


@operator("aten.ldexp.Tensor")
def ldexp(make: OpBuilder, self: Operand, other: Operand) -> Any:
    a, b = _reals(make, self, other)
    return make("mul", a, exp2(make, b))


# -- error functions

_ERFC: Final = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
"""log(erfc(x) / t) + x^2 as a polynomial of t = 1 / (1 + x / 2); the error is 1.2e-7 relative
(Press et al., Numerical Recipes, erfcc)."""


def _scaled_erfc(make: OpBuilder, size: Operand, exponent: Operand) -> Operand:
    """erfc(size) exp(exponent + size^2) for sizes from 0."""
    t = make("rcp", make("add", make("mul", size, 0.5), 1.0))
    return make("mul", t, make("exp", make("add", exponent, polynomial(make, t, _ERFC))))


@_in_reals("erfc", "special_erfc")
def erfc(make: OpBuilder, x: Operand) -> Operand:
    """1 - erf(x); in types below float64 also far tails have all digits."""
    if x.type.dtype is DType.FLOAT64:
        return make("sub", tensor(make, 1.0, x.type.dtype), make("erf", x))
    size = make("abs", x)
    tail = _scaled_erfc(make, size, make("neg", make("sqr", size)))
    return choose(make, make("lt", x, 0.0), make("sub", 2.0, tail), tail)


_ERFINV_NEAR: Final = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_FAR: Final = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""Polynomials of Giles, Approximating the erfinv function (GPU Computing Gems, 2010)."""


@_in_doubles("erfinv", "special_erfinv")
def erfinv(make: OpBuilder, x: Operand) -> Operand:
    """The inverse of erf: the approximation of Giles, then a step of Newton."""
    w = make("neg", make("log", make("mul", make("sub", 1.0, x), make("add", x, 1.0))))
    near = polynomial(make, make("sub", w, 2.5), _ERFINV_NEAR)
    far = polynomial(make, make("sub", make("sqrt", w), 3.0), _ERFINV_FAR)
    y = make("mul", x, choose(make, make("lt", w, 5.0), near, far))
    slope = make("mul", make("exp", make("neg", make("sqr", y))), 2 / math.sqrt(math.pi))
    step = make("div", make("sub", make("erf", y), x), slope)
    y = choose(make, make("lt", make("abs", step), 1e-4), make("sub", y, step), y)
    is_end = make("eq", make("abs", x), 1.0)
    return choose(make, is_end, make("mul", x, math.inf), y)


# -- gamma functions

_LANCZOS: Final = (
    *(676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)
"""Lanczos' approximation with g = 7, n = 9."""


@_in_doubles("lgamma", "special_gammaln")
def lgamma(make: OpBuilder, x: Operand) -> Operand:
    """log |gamma(x)| by Lanczos, mirrored at 1/2."""
    mirrored = make("lt", x, 0.5)
    z = make("sub", choose(make, mirrored, make("sub", 1.0, x), x), 1.0)
    total: Operand = tensor(make, 0.99999999999980993, DType.FLOAT64)
    for i, coefficient in enumerate(_LANCZOS):
        total = make("add", total, make("div", coefficient, make("add", z, i + 1.0)))
    t = make("add", z, 7.5)
    power = make("sub", make("mul", make("add", z, 0.5), make("log", t)), t)
    above = make("add", make("add", power, make("log", total)), math.log(2 * math.pi) / 2)
    # sin(pi x) of the distance to the nearest whole number, which is exact
    distance = make("sub", x, make("round_even", x))
    sine = make("abs", make("sin", make("mul", distance, math.pi)))
    below = make("sub", make("sub", math.log(math.pi), make("log", sine)), above)
    y = choose(make, mirrored, below, above)
    return choose(make, make("is_inf", x), math.inf, y)


_RAISED: Final = 8
"""Steps of the recurrence before an asymptotic series is evaluated."""
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


@_in_doubles("digamma", "special_digamma", "special_psi")
def digamma(make: OpBuilder, x: Operand) -> Operand:
    """The derivative of log gamma: recurrence, asymptotic series, and reflection below 0."""
    mirrored = make("lt", x, 0.0)
    z: Operand = choose(make, mirrored, make("sub", 1.0, x), x)
    total: Operand = tensor(make, 0.0, DType.FLOAT64)
    for _ in range(_RAISED):
        total = make("sub", total, make("rcp", z))
        z = make("add", z, 1.0)
    square = make("rcp", make("sqr", z))
    series = [b / (2 * (k + 1)) for k, b in enumerate(_BERNOULLI)]
    rest = make("mul", polynomial(make, square, tuple(reversed(series))), square)
    far = make("sub", make("sub", make("log", z), make("div", 0.5, z)), rest)
    y = make("add", total, far)
    distance = make("mul", make("sub", x, make("round_even", x)), math.pi)
    reflected = make("sub", y, make("div", math.pi, make("tan", distance)))
    whole = make("and", mirrored, make("eq", x, make("floor", x)))
    y = choose(make, mirrored, reflected, y)
    return choose(make, whole, math.nan, y)


def digamma_of(make: OpBuilder, x: Operand) -> Operand:
    """digamma of any numbers, in their real type."""
    real = in_reals(make, x)
    return make.cast(digamma(make, make.cast(real, DType.FLOAT64)), real.type.dtype)


def _zeta(make: OpBuilder, s: int, z: Operand) -> Operand:
    """The sum of 1 / (z + k)^s over k, by Euler and Maclaurin."""
    total: Operand = tensor(make, 0.0, DType.FLOAT64)
    for _ in range(_RAISED + 2 * s):
        total = make("add", total, make("pow", z, -1.0 * s))
        z = make("add", z, 1.0)
    tail = make("mul", make("pow", z, 1.0 - s), 1 / (s - 1.0))
    tail = make("add", tail, make("mul", make("pow", z, -1.0 * s), 0.5))
    rising = float(s)
    for k, bernoulli in enumerate(_BERNOULLI):
        weight = bernoulli / math.factorial(2 * k + 2) * rising
        tail = make("add", tail, make("mul", make("pow", z, -1.0 * (s + 2 * k + 1)), weight))
        rising *= (s + 2 * k + 1) * (s + 2 * k + 2)
    return make("add", total, tail)


def _derivative_of_cotangent(n: int) -> list[float]:
    """The derivative n of cot(x) as a polynomial of cot(x), the highest power first."""
    powers = [0.0, 1.0]
    for _ in range(n):
        slopes = [i * each for i, each in enumerate(powers)][1:]
        powers = [0.0] * (len(slopes) + 2)
        for i, each in enumerate(slopes):
            powers[i] -= each
            powers[i + 2] -= each
    return powers[::-1]


@operator("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(make: OpBuilder, n: int, self: Operand) -> Any:
    """The derivative n of digamma, by reflection below 1/2."""
    if n == 0:
        return digamma_of(make, self)
    if not 0 < n <= 12:
        raise OperatorError("torch/arguments", f"the polygamma function of order {n}")
    kind = in_reals(make, self).type.dtype
    x: Operand = make.cast(self, DType.FLOAT64)
    mirrored = make("lt", x, 0.5)
    z = choose(make, mirrored, make("sub", 1.0, x), x)
    sign = 1.0 if n % 2 else -1.0
    y = make("mul", _zeta(make, n + 1, z), sign * math.factorial(n))
    angle = make("mul", make("sub", x, make("round_even", x)), math.pi)
    slope = polynomial(make, make("rcp", make("tan", angle)), _derivative_of_cotangent(n))
    reflected = make("sub", make("mul", y, -sign), make("mul", slope, math.pi ** (n + 1)))
    return make.cast(choose(make, mirrored, reflected, y), kind)


@operator("aten.mvlgamma.default")
def mvlgamma(make: OpBuilder, self: Operand, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    x = in_reals(make, self)
    wide = make.cast(x, DType.FLOAT64)
    total: Operand = tensor(make, p * (p - 1) / 4 * math.log(math.pi), DType.FLOAT64)
    for j in range(p):
        total = make("add", lgamma(make, make("sub", wide, j / 2.0)), total)
    return make.cast(total, x.type.dtype)
