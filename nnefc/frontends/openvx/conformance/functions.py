"""Activations of raw integers and softmax, both in float32, rounded towards zero."""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand
from nnefc.frontends.openvx.enumerations import DTYPES, ActivationFunction
from nnefc.frontends.openvx.specification import functions as specification
from nnefc.frontends.openvx.specification.functions import FORMULAS, numbers_of, softmax_axis
from nnefc.frontends.openvx.tensors import FLOAT32, Q78
from nnefc.frontends.openvx.values import Call, shaped, with_batches
from nnefc.ir import DType
from nnefc.ops.extended.quantized import code_limits

STEPS: Final = 32
"""Powers of 2 whose exponents are less than 1 apart."""
COEFFICIENTS: Final = tuple(
    map(float.fromhex, ("0x1.c6af84b912394p-5", "0x1.ebfce50fac4f3p-3", "0x1.62e42ff0c52d6p-1"))
)
"""Of the cube, the square and the number; polynomials of 2^r - 1."""


def activation(call: Call) -> Operand:
    """f of the integer, towards zero; the logistic function is 1 / (1 + exp(x)).

    The suite has no results for Q7.8, which is computed as the text says.
    """
    if call.format in (FLOAT32, Q78):
        return specification.activation(call)
    make, function = call.make, call.value("function")
    a, b = numbers_of(call)
    x = make.cast(with_batches(call), DType.FLOAT64)
    match function:
        case ActivationFunction.LOGISTIC:
            x = make("neg", x)
        case ActivationFunction.HYPERBOLIC_TAN:
            x, b = _in_float32(make, make("mul", x, b)), 1.0
        case ActivationFunction.LINEAR:
            x, a = _in_float32(make, make("mul", x, a)), 1.0
        case _:
            pass
    y = FORMULAS[function](make, x, a, b)
    if function == ActivationFunction.LINEAR:
        y = _in_float32(make, y)
    return shaped(call, make.cast(y, DTYPES[call.format.type]))


def _in_float32(make: OpBuilder, x: Operand) -> Operand:
    """A product or sum of two numbers of float32, exact or rounded to float64, as in float32."""
    return make.cast(make.cast(x, DType.FLOAT32), DType.FLOAT64)


def softmax(call: Call) -> Operand:
    """exp(x) divided by its sum, without subtracting the largest item."""
    if call.format == FLOAT32:
        return specification.softmax(call)
    make, dtype = call.make, DTYPES[call.format.type]
    lowest, highest = code_limits(dtype)
    scale = 2.0**call.format.position
    table = KnownTensor(expf(np.arange(lowest, highest + 1) / scale), DType.FLOAT32)
    index = make("sub", make.cast(with_batches(call), DType.INT32), lowest)
    powers = make("gather", table, index)
    sums = make("ordered_sum", powers, axis=softmax_axis(powers))
    shares = make("div", powers, sums)
    # exponentials that overflow have no share, which is NaN
    return shaped(call, make.cast(make("mul", shares, scale), dtype))


def expf(x: Array) -> Array:
    """`expf` of the C library of GNU: 2^(k / 32) and a polynomial in float64, rounded once.

    The polynomial is that of ARM's optimized routines, with an error of 0.502 units.
    """
    in_steps = x * (float.fromhex("0x1.71547652b82fep0") * STEPS)
    k = np.rint(in_steps)
    r = in_steps - k
    cubic, square, line = (c / STEPS**n for n, c in zip((3, 2, 1), COEFFICIENTS, strict=True))
    powers = np.ldexp(np.exp2(k % STEPS / STEPS), (k // STEPS).astype(int))
    with np.errstate(over="ignore"):
        return (((cubic * r + square) * (r * r) + (line * r + 1)) * powers).astype(np.float32)
