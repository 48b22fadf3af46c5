"""Activations of raw integers and softmax, both in float32, rounded towards zero."""

from __future__ import annotations

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.enumerations import DTYPES, ActivationFunction
from nnefc.frontends.openvx.specification import functions as specification
from nnefc.frontends.openvx.specification.functions import FORMULAS, softmax_axis
from nnefc.frontends.openvx.tensors import FLOAT32, Q78
from nnefc.frontends.openvx.values import Call
from nnefc.ir import DType


def activation(call: Call) -> Operand:
    """f of the integer, towards zero; the logistic function is 1 / (1 + exp(x)).

    The suite has no results for Q7.8, which is computed as the text says.
    """
    if call.format in (FLOAT32, Q78):
        return specification.activation(call)
    make, function = call.make, call.value("function")
    a, b = call.real("a"), call.real("b")
    x = make.cast(call.operands["inputs"], DType.FLOAT64)
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
    return make.cast(y, DTYPES[call.format.type])


def _in_float32(make: OpBuilder, x: Operand) -> Operand:
    """A product or sum of two numbers of float32, exact or rounded to float64, as in float32."""
    return make.cast(make.cast(x, DType.FLOAT32), DType.FLOAT64)


def softmax(call: Call) -> Operand:
    """exp(x) divided by its sum, without subtracting the largest item."""
    if call.format == FLOAT32:
        return specification.softmax(call)
    make, axes = call.make, (softmax_axis(call),)
    scale = 2.0**call.format.position
    reals = make.cast(call.operands["inputs"], DType.FLOAT32)
    powers = make("exp", make("mul", reals, 1 / scale))
    shares = make("div", powers, make("sum_reduce", powers, axes=axes))
    return make.cast(make("mul", shares, scale), DTYPES[call.format.type])
