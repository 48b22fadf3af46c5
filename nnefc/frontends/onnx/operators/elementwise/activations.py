"""Activation functions of one operand, limits and thresholds.

Formulas of several operations are computed in float32 for 16-bit floats, as onnxruntime does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import (
    aligned,
    aligned_at,
    constant,
    widened,
)
from nnefc.frontends.onnx.registry import MICROSOFT, operator

_LARGEST: Final = float(np.finfo(np.float32).max)


def in_wide_type(make: OpBuilder, x: Operand, compute: Callable[[Operand], Operand]) -> Operand:
    """The result of a formula, computed with `widened` items and cast back."""
    return make.cast(compute(widened(make, x)), x.type.dtype)


# -- rectifiers


@operator("LeakyRelu")
def leaky_relu(make: OpBuilder, X: Operand, *, alpha: float = 0.01) -> Any:
    return make("leaky_relu", X, alpha=alpha)


@operator("PRelu", until=6)
def prelu_1(make: OpBuilder, X: Operand, slope: Operand) -> Any:
    """`slope`: one for all channels, or one per channel."""
    if slope.type.volume == 1:
        return prelu(make, X, make.reshape(slope, ()))
    return prelu(make, X, aligned_at(make, X, slope, 1 if slope.type.rank == 1 else 0))


@operator("PRelu", since=7)
def prelu(make: OpBuilder, X: Operand, slope: Operand) -> Any:
    x, alpha = aligned(make, X, slope)
    if x.type.dtype.is_float:
        return make("prelu", x, alpha)
    if not x.type.dtype.is_signed:
        return x
    return make("select", make("lt", x, constant(x, 0)), make("mul", x, alpha), x)


@operator("Elu")
def elu(make: OpBuilder, X: Operand, *, alpha: float = 1.0) -> Any:
    return make("elu", X, alpha=alpha)


@operator("Selu", until=5)
def selu_1(make: OpBuilder, X: Operand, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Any:
    return selu(make, X, alpha=alpha, gamma=gamma)


@operator("Selu", since=6)
def selu(
    make: OpBuilder,
    X: Operand,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Any:
    parameters: dict[str, Any] = {"alpha": alpha, "lambda": gamma}
    return make("selu", X, **parameters)


@operator("Celu", since=12)
def celu(make: OpBuilder, X: Operand, *, alpha: float = 1.0) -> Any:
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))."""

    def compute(x: Operand) -> Operand:
        quotient = make("div", x, constant(x, alpha))
        if alpha > 0:
            return make("mul", make("elu", quotient, alpha=1.0), constant(x, alpha))
        less = make("mul", make("sub", make("exp", quotient), constant(x, 1)), constant(x, alpha))
        return make("add", make("relu", x), make("min", less, constant(x, 0)))

    return X if not alpha else in_wide_type(make, X, compute)


@operator("ThresholdedRelu", since=10)
def thresholded_relu(make: OpBuilder, X: Operand, *, alpha: float = 1.0) -> Any:
    return make("select", make("gt", X, constant(X, alpha)), X, constant(X, 0))


@operator("Shrink", since=9)
def shrink(make: OpBuilder, input: Operand, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """x + bias below -lambd, x - bias above lambd, 0 between them."""

    def compute(x: Operand) -> Operand:
        above = make("gt", x, constant(x, lambd))
        below = make("lt", x, constant(x, -lambd))
        lowered, raised = (make(name, x, constant(x, bias)) for name in ("sub", "add"))
        upper = make("select", above, lowered, constant(x, 0))
        return make("select", below, raised, upper)

    return in_wide_type(make, input, compute)


# -- functions like a step


@operator("HardSigmoid")
def hard_sigmoid(make: OpBuilder, X: Operand, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """min(max(alpha x + beta, 0), 1)."""
    return in_wide_type(make, X, lambda x: _hard_sigmoid(make, x, alpha, beta))


@operator("HardSwish", since=14)
def hard_swish(make: OpBuilder, X: Operand) -> Any:
    """x min(max(x / 6 + 1/2, 0), 1)."""

    def compute(x: Operand) -> Operand:
        return make("mul", x, _hard_sigmoid(make, x, 1 / 6, 0.5))

    return in_wide_type(make, X, compute)


def _hard_sigmoid(make: OpBuilder, x: Operand, alpha: float, beta: float) -> Operand:
    line = make("add", make("mul", x, constant(x, alpha)), constant(x, beta))
    return make("clamp", line, constant(x, 0), constant(x, 1))


@operator("Mish", since=18)
def mish(make: OpBuilder, X: Operand) -> Any:
    """x tanh(softplus(x))."""
    return in_wide_type(make, X, lambda x: make("mul", x, make("tanh", make("softplus", x))))


@operator("Softsign")
def softsign(make: OpBuilder, input: Operand) -> Any:
    """x / (1 + |x|)."""

    def compute(x: Operand) -> Operand:
        return make("div", x, make("add", make("abs", x), constant(x, 1)))

    return in_wide_type(make, input, compute)


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(make: OpBuilder, X: Operand, *, alpha: float = 1.702) -> Any:
    return swish(make, X, alpha=alpha)


@operator("Swish", since=24)
def swish(make: OpBuilder, X: Operand, *, alpha: float = 1.0) -> Any:
    """x sigmoid(alpha x)."""
    if alpha == 1:
        return make("silu", X)

    def compute(x: Operand) -> Operand:
        return make("mul", x, make("sigmoid", make("mul", x, constant(x, alpha))))

    return in_wide_type(make, X, compute)


# -- Gaussian error linear units


@operator("Gelu", since=20)
def gelu(make: OpBuilder, X: Operand, *, approximate: str = "none") -> Any:
    """x/2 (1 + erf(x / sqrt(2))), or its approximation by tanh."""
    if approximate == "tanh":
        return in_wide_type(make, X, lambda x: tanh_gelu(make, x))
    if approximate != "none":
        message = f"approximate is 'none' or 'tanh', not {approximate!r}"
        raise OperatorError("onnx/arguments", message)
    return in_wide_type(make, X, lambda x: _erf_gelu(make, x))


def _erf_gelu(make: OpBuilder, x: Operand) -> Operand:
    gate = make("erf", make("mul", x, constant(x, math.sqrt(0.5))))
    half = make("mul", x, constant(x, 0.5))
    return make("mul", half, make("add", gate, constant(x, 1)))


def tanh_gelu(make: OpBuilder, x: Operand) -> Operand:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    cube = make("mul", make("sqr", x), x)
    inner = make("add", x, make("mul", cube, constant(x, 0.044715)))
    gate = make("tanh", make("mul", inner, constant(x, math.sqrt(2 / math.pi))))
    half = make("mul", x, constant(x, 0.5))
    return make("mul", half, make("add", gate, constant(x, 1)))


# -- limits


@operator("Clip", until=5)
def clip_1(
    make: OpBuilder, input: Operand, *, max: float | None = None, min: float | None = None
) -> Any:
    limits = [None if limit is None else constant(input, limit) for limit in (min, max)]
    return clip(make, input, *limits)


@operator("Clip", since=6, until=10)
def clip_6(
    make: OpBuilder, input: Operand, *, max: float = _LARGEST, min: float = -_LARGEST
) -> Any:
    """The defaults are limits, too: infinities become the largest float32.  float16 has none."""
    largest = float(np.finfo(input.type.dtype.numpy).max)
    low = None if min < -largest else constant(input, min)
    high = None if max > largest else constant(input, max)
    return clip(make, input, low, high)


@operator("Clip", since=11)
def clip(
    make: OpBuilder, input: Operand, min: Operand | None = None, max: Operand | None = None
) -> Any:
    """min(max(x, low), high): `max` wins where it is less than `min`."""
    result = input
    for name, limit in (("max", min), ("min", max)):
        if limit is not None:
            result = make(name, result, _limit(make, input, limit))
    return result


def _limit(make: OpBuilder, x: Operand, limit: Operand) -> Operand:
    """A limit as a tensor of rank 0."""
    if limit.type.volume != 1:
        shape = list(limit.type.dims)
        raise OperatorError("onnx/shape", f"a limit is one number, not a tensor of shape {shape}")
    return make.reshape(limit, ())


# -- operators of com.microsoft


@operator("Gelu", domain=MICROSOFT)
def microsoft_gelu(make: OpBuilder, X: Operand) -> Any:
    return gelu(make, X)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(make: OpBuilder, A: Operand, B: Operand) -> Any:
    """The Gelu of A + B; B has the last dimension of A."""
    return gelu(make, make("add", *aligned(make, A, B)))


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(make: OpBuilder, X: Operand, bias: Operand | None = None) -> Any:
    """The approximation of Gelu by tanh, of X + bias."""
    if bias is None:
        return gelu(make, X, approximate="tanh")
    return gelu(make, make("add", *aligned(make, X, bias)), approximate="tanh")


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(make: OpBuilder, X: Operand, bias: Operand) -> Any:
    """The first half of X + bias along the last dimension, times the Gelu of the second half."""
    *outer, width = of_rank_at_least("gelu", "X", X, 1)
    of_shape("gelu", "bias", bias, (width,))
    if width % 2:
        raise OperatorError("argument/gelu", f"X has shape {list(X.type.dims)}; {width} is odd")
    both = make("add", *aligned(make, X, bias))
    axis, half = len(outer), width // 2
    left, right = (slice_in_dim(make, both, axis, i * half, (i + 1) * half) for i in range(2))
    return make("mul", left, gelu(make, right))
