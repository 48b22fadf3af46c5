"""Element-wise operations: sections 4.2.1 to 4.2.3, their later relatives, and `cast`.

Operands broadcast at dimension 0.  `max` and `min` are `select(x > y, x, y)` to the
letter, so a NaN in x yields y.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnefc.ir import DType
from nnefc.ops.common import Array, aligned, broadcasting, same
from nnefc.ops.spec import OpSpec, Sample

_EXTREMES = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 0.25, -0.75, 1e4, -1e4)


def _listed(*values: float, data: str = "normal") -> Sample:
    """A sample of explicit items."""
    return Sample(inputs=((len(values),),), values={0: list(values)}, data=data)


def _spread(data: str) -> tuple[Sample, ...]:
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
    extra: tuple[Sample, ...] = (),
) -> OpSpec:
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<scalar> ) -> ( y: tensor<scalar> )",
        section=section,
        summary=summary,
        infer=same("x"),
        reference=function,
        elementwise=True,
        samples=_spread(data) + extra,
    )


_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (1, 3)),
    ((2, 1), (2, 3, 4)),
    ((), (2, 3)),
    ((5,), ()),
    ((), ()),
    ((2, 1, 4), (1, 3, 1)),
    ((3,), (3, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2), (1, 1, 1, 2, 1, 1, 1, 2)),
)


def _binary(
    name: str,
    function: Callable[[Array, Array], Array],
    summary: str,
    *,
    section: str = "4.2.2",
    result: DType | None = None,
    data: str = "normal",
    commutative: bool = False,
    extra: tuple[Sample, ...] = (),
) -> OpSpec:
    operand = "logical" if data == "logical" else "scalar"
    output = "scalar" if result is None else "logical"
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<{operand}>, y: tensor<{operand}> ) "
        f"-> ( z: tensor<{output}> )",
        section=section,
        summary=summary,
        infer=broadcasting("x", "y", dtype=result),
        reference=aligned(function),
        elementwise=True,
        commutative=commutative,
        samples=tuple(Sample(inputs=pair, data=data) for pair in _PAIRS) + extra,
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
    """1 / (1 + exp(-x)) without overflow: exp only of what is not positive."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _softplus(x: Array) -> Array:
    """log(exp(x) + 1) without overflow."""
    return np.logaddexp(x, 0.0)


def _relu(x: Array) -> Array:
    return np.where(x > 0.0, x, 0.0)


def _min(x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


def _max(x: Array, y: Array) -> Array:
    return np.where(x > y, x, y)


def _copy(x: Array) -> Array:
    return x


def cast(x: Array, *, dtype: DType) -> Array:
    """Convert items: to integers towards zero, saturating, NaN to 0; to logicals `x != 0`."""
    if dtype is DType.BOOL:
        return x != 0
    if dtype.is_float:
        return x.astype(np.float64)
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    bounds = np.iinfo(dtype.numpy)
    whole = np.trunc(np.nan_to_num(x, nan=0.0))
    # the largest integer may not be a float: compare before converting
    low, high = whole <= float(bounds.min), whole >= float(bounds.max)
    inner = np.where(low | high, 0.0, whole).astype(np.int64)
    return np.where(low, bounds.min, np.where(high, bounds.max, inner))


_UNARY = (
    _unary("neg", np.negative, "Negation, -x."),
    _unary("rcp", _rcp, "Reciprocal, 1 / x.", extra=(_listed(0.0, 2.0, -4.0),)),
    _unary("exp", np.exp, "Exponential.", extra=(_listed(-1e4, -80.0, 0.0, 80.0),)),
    _unary(
        "log",
        np.log,
        "Natural logarithm.",
        data="positive",
        extra=(_listed(0.0, 1.0, 1e30, 1e-30),),
    ),
    _unary("sin", np.sin, "Sine of radians.", extra=(_listed(0.0, 100.0, -100.0),)),
    _unary("cos", np.cos, "Cosine of radians.", extra=(_listed(0.0, 100.0, -100.0),)),
    _unary("abs", np.abs, "Absolute value.", extra=(_listed(*_EXTREMES),)),
    _unary("sign", np.sign, "-1, 0 or 1 by the sign of x.", extra=(_listed(*_EXTREMES),)),
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
    _unary("sqr", np.square, "Square.", section="4.2.4"),
    _unary(
        "sqrt",
        np.sqrt,
        "Square root.",
        section="4.2.4",
        data="positive",
        extra=(_listed(0.0, 4.0, 1e30, 1e-30),),
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
    ),
    _unary("relu", _relu, "Rectifier, max(x, 0).", section="4.9.1", extra=(_listed(*_EXTREMES),)),
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

_BINARY = (
    _binary("add", np.add, "Sum.", commutative=True),
    _binary("sub", np.subtract, "Difference."),
    _binary("mul", np.multiply, "Product.", commutative=True),
    _binary("div", np.divide, "Quotient.", data="positive"),
    _binary(
        "pow",
        np.power,
        "Power, x ^ y.",
        data="positive",
        extra=(
            Sample(inputs=((2, 3), ()), values={1: 3.0}),
            Sample(
                inputs=((6,), (6,)),
                values={
                    0: [-2.0, -2.0, -0.5, 0.0, 0.0, -3.0],
                    1: [2.0, -3.0, 3.0, 0.0, 2.0, 0.0],
                },
            ),
        ),
    ),
    _binary("lt", np.less, "Whether x < y.", result=DType.BOOL, data="ties"),
    _binary("gt", np.greater, "Whether x > y.", result=DType.BOOL, data="ties"),
    _binary("le", np.less_equal, "Whether x <= y.", result=DType.BOOL, data="ties"),
    _binary("ge", np.greater_equal, "Whether x >= y.", result=DType.BOOL, data="ties"),
    _binary("eq", np.equal, "Whether x == y.", result=DType.BOOL, data="ties", commutative=True),
    _binary(
        "ne", np.not_equal, "Whether x != y.", result=DType.BOOL, data="ties", commutative=True
    ),
    _binary(
        "and",
        np.logical_and,
        "Logical conjunction.",
        result=DType.BOOL,
        data="logical",
        commutative=True,
    ),
    _binary(
        "or",
        np.logical_or,
        "Logical disjunction.",
        result=DType.BOOL,
        data="logical",
        commutative=True,
    ),
    _binary("min", _min, "Minimum, select(x < y, x, y).", section="4.2.4", data="ties"),
    _binary("max", _max, "Maximum, select(x > y, x, y).", section="4.2.4", data="ties"),
)


def _cast(values: list[float], dtype: DType) -> Sample:
    return Sample(inputs=((len(values),),), attributes={"dtype": dtype}, values={0: values})


_INTEGERS = {0: [[0, 1, -2], [3, 100000, -7]]}

_GENERIC = (
    OpSpec(
        name="copy",
        signature="fragment copy<?>( x: tensor<?> ) -> ( y: tensor<?> )",
        section="4.2.1",
        summary="The same tensor.",
        infer=same("x"),
        reference=_copy,
        elementwise=True,
        samples=(
            *_spread("normal"),
            Sample(inputs=((2, 3),), values=_INTEGERS),
            Sample(inputs=((2, 3),), data="logical"),
        ),
    ),
    OpSpec(
        name="not",
        signature="fragment not( x: tensor<logical> ) -> ( y: tensor<logical> )",
        section="4.2.1",
        summary="Logical negation.",
        infer=same("x"),
        reference=np.logical_not,
        elementwise=True,
        samples=_spread("logical"),
    ),
    OpSpec(
        name="select",
        signature="fragment select<?>( condition: tensor<logical>, true_value: tensor<?>, "
        "false_value: tensor<?> ) -> ( output: tensor<?> )",
        section="4.2.3",
        summary="The items of true_value where condition holds, of false_value elsewhere.",
        infer=broadcasting("condition", "true_value", "false_value"),
        reference=aligned(np.where),
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3, 4), (2, 3, 4), (2, 3, 4))),
            Sample(inputs=((1, 1), (2, 3, 4), ())),
            Sample(inputs=((2, 3), (), (2, 3, 4))),
            Sample(inputs=((), (2,), (1, 3))),
            Sample(inputs=((), (), ())),
            Sample(inputs=((2, 1, 2), (1, 3), (2, 3, 2)), data="logical"),
            Sample(inputs=((2, 3), (2, 3), (1,)), values={1: _INTEGERS[0], 2: [5]}),
        ),
    ),
    OpSpec(
        name="cast",
        signature="fragment cast<?>( input: tensor<> ) -> ( output: tensor<?> )",
        section="beyond",
        summary="Conversion of the item type: to integers towards zero and saturating, "
        "to logicals `x != 0`.",
        infer=same("input"),
        reference=cast,
        elementwise=True,
        samples=(
            Sample(inputs=((2, 3),), attributes={"dtype": DType.INT32}, data="ties"),
            _cast([-2.75, -0.5, 0.0, 0.5, 2.75, 1e30, -1e30], DType.INT32),
            _cast([-2.75, -0.5, 0.0, 0.5], DType.BOOL),
            _cast([-2.75, -0.5, 0.0, 0.5], DType.FLOAT32),
            _cast([-2, 0, 3, 70000], DType.FLOAT32),
            _cast([-2, 0, 3, 70000], DType.INT32),
            _cast([-2, 0, 3, 70000], DType.BOOL),
            _cast([True, False], DType.FLOAT32),
            _cast([True, False], DType.INT32),
            Sample(inputs=((),), attributes={"dtype": DType.INT32}, values={0: -3.5}),
        ),
    ),
)

SPECS: tuple[OpSpec, ...] = (
    *_GENERIC,
    *_UNARY,
    *_BINARY,
    *_SIMPLIFIERS,
    *_ACTIVATIONS,
    *_BEYOND,
)
