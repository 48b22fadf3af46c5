"""Element-wise operations of one scalar tensor: 4.2.1, 4.2.4, 4.9.1, and beyond NNEF 1.0.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nnefc.ops.core import affine_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import same
from nnefc.ops.core.spec import OpSpec, Sample
from nnefc.ops.core.traits import CHEAP_ELEMENTWISE, ELEMENTWISE, Sign, Traits

_EXTREMES = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 0.25, -0.75, 1e4, -1e4)


_KEEPS_SIGN: Final = ELEMENTWISE._replace(sign=Sign.KEPT)
_NONNEGATIVE: Final = ELEMENTWISE._replace(sign=Sign.NONNEGATIVE)
_CHEAP_NONNEGATIVE: Final = CHEAP_ELEMENTWISE._replace(sign=Sign.NONNEGATIVE)


def _listed(*values: float, data: str = "normal") -> Sample:
    """A sample with explicit items."""
    return Sample(inputs=((len(values),),), values={0: list(values)}, data=data)


def samples_of_ranks(data: str) -> tuple[Sample, ...]:
    """Samples of one operand over ranks 0 to 8."""
    shapes = ((), (7,), (2, 3), (2, 3, 4), (1, 2, 3, 2, 2), (1, 2, 1, 2, 1, 2, 1, 2))
    return tuple(Sample(inputs=(shape,), data=data) for shape in shapes)


def _unary(
    name: str,
    function: Callable[[Array], Array],
    summary: str,
    *,
    section: str = "4.2.1",
    data: str = "normal",
    integers: bool = False,
    extra: tuple[Sample, ...] = (),
    traits: Traits = ELEMENTWISE,
) -> OpSpec:
    """The entry of an element-wise operation of one scalar tensor."""
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<scalar> ) -> ( y: tensor<scalar> )",
        section=section,
        summary=summary,
        infer=same("x"),
        reference=function,
        traits=traits,
        elementwise=True,
        integers=integers,
        samples=samples_of_ranks(data) + extra,
    )


def _round(x: Array) -> Array:
    return np.floor(x + 0.5)


def _rcp(x: Array) -> Array:
    return 1.0 / x


def _rsqr(x: Array) -> Array:
    return 1.0 / (x * x)


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) (4.9.1), without overflow: the argument of exp is never positive."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _softplus(x: Array) -> Array:
    """log(exp(x) + 1) (4.9.1), without overflow."""
    return np.logaddexp(x, 0.0)


def _relu(x: Array) -> Array:
    return np.where(x <= 0, np.zeros_like(x), x)


_UNARY = (
    _unary(
        "neg",
        np.negative,
        "Negation, -x.",
        integers=True,
        traits=CHEAP_ELEMENTWISE._replace(affine=affine_rules.negation),
    ),
    _unary("rcp", _rcp, "Reciprocal, 1 / x.", extra=(_listed(0.0, 2.0, -4.0),), traits=_KEEPS_SIGN),
    _unary(
        "exp", np.exp, "Exponential.", extra=(_listed(-1e4, -80.0, 0.0, 80.0),), traits=_NONNEGATIVE
    ),
    _unary(
        "log",
        np.log,
        "Natural logarithm.",
        data="positive",
        extra=(_listed(0.0, 1.0, 1e30, 1e-30),),
    ),
    _unary("sin", np.sin, "Sine of radians.", extra=(_listed(0.0, 100.0, -100.0),)),
    _unary("cos", np.cos, "Cosine of radians.", extra=(_listed(0.0, 100.0, -100.0),)),
    _unary(
        "abs",
        np.abs,
        "Absolute value.",
        integers=True,
        extra=(_listed(*_EXTREMES),),
        traits=_CHEAP_NONNEGATIVE,
    ),
    _unary(
        "sign",
        np.sign,
        "-1, 0 or 1 by the sign of x.",
        integers=True,
        extra=(_listed(*_EXTREMES),),
    ),
    _unary("floor", np.floor, "Largest whole number not above x.", extra=(_listed(*_EXTREMES),)),
    _unary("ceil", np.ceil, "Smallest whole number not below x.", extra=(_listed(*_EXTREMES),)),
    _unary(
        "round",
        _round,
        "Nearest whole number, halves upwards: floor(x + 0.5).",
        data="ties",
        extra=(_listed(*_EXTREMES),),
    ),
)

_SIMPLIFIERS = (
    _unary("sqr", np.square, "Square.", section="4.2.4", integers=True, traits=_CHEAP_NONNEGATIVE),
    _unary(
        "sqrt",
        np.sqrt,
        "Square root.",
        section="4.2.4",
        data="positive",
        extra=(_listed(0.0, 4.0, 1e30, 1e-30),),
        traits=_KEEPS_SIGN,
    ),
    _unary(
        "rsqr",
        _rsqr,
        "Reciprocal of the square.",
        section="4.2.4",
        data="positive",
        extra=(_listed(-2.0, 0.5, 0.0),),
    ),
    _unary(
        "rsqrt",
        _rsqrt,
        "Reciprocal of the square root.",
        section="4.2.4",
        data="positive",
        extra=(_listed(0.0, 4.0, 1e30, 1e-30),),
    ),
    _unary(
        "log2",
        np.log2,
        "Logarithm to base 2.",
        section="4.2.4",
        data="positive",
        extra=(_listed(0.0, 0.125, 1.0, 8.0, 1e30),),
    ),
)

_ACTIVATIONS = (
    _unary(
        "sigmoid",
        sigmoid,
        "Logistic function, 1 / (1 + exp(-x)).",
        section="4.9.1",
        extra=(_listed(-1e4, -100.0, 0.0, 100.0, 1e4),),
        traits=_NONNEGATIVE,
    ),
    _unary(
        "relu",
        _relu,
        "Rectifier, max(x, 0).",
        section="4.9.1",
        integers=True,
        extra=(_listed(*_EXTREMES),),
        traits=CHEAP_ELEMENTWISE,
    ),
    _unary(
        "tanh",
        np.tanh,
        "Hyperbolic tangent.",
        section="4.9.1",
        extra=(_listed(-1e4, -20.0, -1e-4, 0.0, 1e-4, 20.0, 1e4),),
    ),
    _unary(
        "softplus",
        _softplus,
        "Smooth rectifier, log(exp(x) + 1).",
        section="4.9.1",
        extra=(_listed(-1e4, -100.0, -5.0, 0.0, 5.0, 100.0, 1e4),),
    ),
)

_BEYOND = (
    _unary("tan", np.tan, "Tangent of radians.", section="beyond", data="unit"),
    _unary("sinh", np.sinh, "Hyperbolic sine.", section="beyond"),
    _unary("cosh", np.cosh, "Hyperbolic cosine.", section="beyond"),
    _unary(
        "asin",
        np.arcsin,
        "Inverse sine in radians.",
        section="beyond",
        data="unit",
        extra=(_listed(-1.0, -0.5, 0.0, 1.0),),
    ),
    _unary(
        "acos",
        np.arccos,
        "Inverse cosine in radians.",
        section="beyond",
        data="unit",
        extra=(_listed(-1.0, -0.5, 0.0, 1.0),),
    ),
    _unary(
        "atan",
        np.arctan,
        "Inverse tangent in radians.",
        section="beyond",
        extra=(_listed(-1e4, 0.0, 1e4),),
    ),
    _unary(
        "asinh",
        np.arcsinh,
        "Inverse hyperbolic sine.",
        section="beyond",
        extra=(_listed(-1e4, 0.0, 1e4),),
    ),
    OpSpec(
        name="acosh",
        signature="fragment acosh( x: tensor<scalar> ) -> ( y: tensor<scalar> )",
        section="beyond",
        summary="Inverse hyperbolic cosine, for x >= 1.",
        infer=same("x"),
        reference=np.arccosh,
        traits=ELEMENTWISE,
        elementwise=True,
        samples=(
            _listed(1.0, 1.25, 2.0, 7.5, 1e4),
            Sample(inputs=((),), values={0: 1.5}),
            Sample(inputs=((2, 1, 2),), values={0: [[[1.5, 3.0]], [[1.0625, 40.0]]]}),
        ),
    ),
    _unary(
        "atanh",
        np.arctanh,
        "Inverse hyperbolic tangent.",
        section="beyond",
        data="unit",
        extra=(_listed(-0.75, 0.0, 0.96875),),
    ),
)

SPECS: tuple[OpSpec, ...] = (*_UNARY, *_SIMPLIFIERS, *_ACTIVATIONS, *_BEYOND)
