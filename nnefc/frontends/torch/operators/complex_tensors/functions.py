"""Functions of complex tensors.

Sources: Abramowitz and Stegun, 4.3.55 to 4.5.52; roots as in Kahan, "Branch cuts for complex
elementary functions", 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.torch.complex_pair import ComplexPair
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.operators.complex_tensors.arithmetic import (
    absolute,
    angle,
    exp,
    product,
    real_operator,
    reciprocal,
    with_imaginary,
)
from nnefc.frontends.torch.operators.special_functions import choose
from nnefc.frontends.torch.registry import Number, complex_operator

MOST_FACTORS: Final = 8
"""Whole powers up to this one are products."""


def _scaled(make: OpBuilder, x: ComplexPair, factor: Any) -> ComplexPair:
    """A complex tensor times a real tensor or number."""
    return ComplexPair(*(make("mul", part, factor) for part in (x.real, x.imag)))


def _turned(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """i x."""
    return ComplexPair(make("neg", x.imag), x.real)


def _turned_back(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """-i x."""
    return ComplexPair(x.imag, make("neg", x.real))


# -- functions


def log(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return ComplexPair(make("log", absolute(make, x)), angle(make, x))


def _log1p(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """log(1 + x), whose real part is exact for small x, too."""
    more = make("mul", x.real, make("add", x.real, 2.0))
    more = make("add", more, make("mul", x.imag, x.imag))
    half = make("mul", real_operator(make, "log1p.default", more), 0.5)
    return ComplexPair(half, angle(make, ComplexPair(make("add", x.real, 1.0), x.imag)))


def sqrt(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """The root with a real part of at least 0."""
    half = make("mul", make("add", absolute(make, x), make("abs", x.real)), 0.5)
    root = make("sqrt", half)
    is_zero = make("eq", root, 0.0)
    other = make("div", make("mul", x.imag, 0.5), choose(make, is_zero, 1.0, root))
    is_left = make("lt", x.real, 0.0)
    signed = make("select", make("lt", x.imag, 0.0), make("neg", root), root)
    real = make("select", is_left, make("abs", other), root)
    return ComplexPair(real, make("select", is_left, signed, other))


def sinh(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    turn = make("cos", x.imag), make("sin", x.imag)
    sizes = make("sinh", x.real), make("cosh", x.real)
    return ComplexPair(*(make("mul", *each) for each in zip(sizes, turn, strict=True)))


def cosh(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    turn = make("cos", x.imag), make("sin", x.imag)
    sizes = make("cosh", x.real), make("sinh", x.real)
    return ComplexPair(*(make("mul", *each) for each in zip(sizes, turn, strict=True)))


def tanh(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """(t (1 + u^2) + i u / cosh^2) / (1 + t^2 u^2) with t = tanh(real), u = tan(imag)."""
    t, u, wide = make("tanh", x.real), make("tan", x.imag), make("cosh", x.real)
    square = make("mul", u, u)
    below = make("add", make("mul", make("mul", t, t), square), 1.0)
    above = make("mul", t, make("add", square, 1.0)), make("div", make("div", u, wide), wide)
    return ComplexPair(*(make("div", each, below) for each in above))


def _sin(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return _turned_back(make, sinh(make, _turned(make, x)))


def _cos(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return cosh(make, _turned(make, x))


def _tan(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return _turned_back(make, tanh(make, _turned(make, x)))


def _sigmoid(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """(1 + tanh(x / 2)) / 2."""
    y = _scaled(make, tanh(make, _scaled(make, x, 0.5)), 0.5)
    return ComplexPair(make("add", y.real, 0.5), y.imag)


def _less_one(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return ComplexPair(make("sub", x.real, 1.0), x.imag)


def _rsqrt(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    return reciprocal(make, sqrt(make, x))


def _sign(make: OpBuilder, x: ComplexPair) -> ComplexPair:
    """x / |x|; 0 for 0."""
    size = absolute(make, x)
    below = choose(make, make("eq", size, 0.0), 1.0, size)
    return ComplexPair(*(make("div", part, below) for part in (x.real, x.imag)))


_FUNCTIONS: Final[dict[str, Callable[[OpBuilder, ComplexPair], ComplexPair]]] = {
    "log": log,
    "log1p": _log1p,
    "log2": lambda make, x: _scaled(make, log(make, x), 1 / math.log(2)),
    "log10": lambda make, x: _scaled(make, log(make, x), 1 / math.log(10)),
    "sqrt": sqrt,
    "rsqrt": _rsqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sigmoid": _sigmoid,
    "sgn": _sign,
    "silu": lambda make, x: product(make, "mul.Tensor", x, _sigmoid(make, x)),
    "exp2": lambda make, x: exp(make, _scaled(make, x, math.log(2))),
    "expm1": lambda make, x: _less_one(make, exp(make, x)),
}


def _unary(name: str, function: Callable[[OpBuilder, ComplexPair], ComplexPair]) -> None:
    def compute(make: OpBuilder, self: Number) -> Any:
        return function(make, self)

    complex_operator(f"aten.{name}.default")(compute)


for _name, _function in _FUNCTIONS.items():
    _unary(_name, _function)


@complex_operator("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(make: OpBuilder, self: Number, exponent: Number) -> Any:
    """x^y = exp(y log x); products for small whole numbers."""
    is_whole = isinstance(exponent, int | float) and float(exponent).is_integer()
    if is_whole and 0 < abs(exponent) <= MOST_FACTORS:
        result = self
        for _ in range(abs(int(exponent)) - 1):
            result = product(make, "mul.Tensor", result, self)
        return result if exponent > 0 else reciprocal(make, result)
    if exponent == 0.5:
        return sqrt(make, self)
    base, above = with_imaginary(make, self), with_imaginary(make, exponent)
    is_zero = make("and", make("eq", base.real, 0.0), make("eq", base.imag, 0.0))
    safe = ComplexPair(choose(make, is_zero, 1.0, base.real), base.imag)
    found = exp(make, product(make, "mul.Tensor", log(make, safe), above))
    dtype = found.type.dtype
    no_power = [real_operator(make, "eq.Scalar", part, 0) for part in (above.real, above.imag)]
    is_pole = real_operator(make, "lt.Scalar", above.real, 0)
    of_zero = real_operator(make, "where.ScalarOther", is_pole, math.inf, 0.0)
    of_zero = real_operator(make, "where.ScalarSelf", make("and", *no_power), 1.0, of_zero)
    return ComplexPair(
        real_operator(make, "where.self", is_zero, make.cast(of_zero, dtype), found.real),
        real_operator(make, "where.self", is_zero, tensor(make, 0.0, dtype), found.imag),
    )
