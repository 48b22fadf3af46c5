"""Activations, and those that are fused into other operators."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.operands import aligned
from nnefc.frontends.tflite.registry import REALS, operator

NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = range(6)
"""The numbers of `ActivationFunctionType`."""
BOUNDS: Final = {
    NONE: (-math.inf, math.inf),
    RELU: (0.0, math.inf),
    RELU_N1_TO_1: (-1.0, 1.0),
    RELU6: (0.0, 6.0),
}
"""The smallest and the largest result of activations that only limit their operand."""


def activated(make: OpBuilder, y: Operand, fused_activation_function: int) -> Any:
    """A result after a fused activation; raises OperatorError for an unknown one."""
    match fused_activation_function:
        case 0:
            return y
        case 1:
            zero = KnownTensor(np.array(0, y.type.dtype.numpy), y.type.dtype)
            return make("relu", y) if y.type.dtype.is_float else make("max", y, zero)
        case 2 | 3:
            return make("clamp", y, *BOUNDS[fused_activation_function])
        case 4:
            return make("tanh", y)
        case _:
            message = f"fused activation {fused_activation_function} is not supported"
            raise OperatorError("tflite/unsupported", message)


@operator("RELU", types=REALS)
def relu(make: OpBuilder, input: Operand) -> Any:
    return make("relu", input)


@operator("RELU6", types=REALS)
def relu6(make: OpBuilder, input: Operand) -> Any:
    return make("clamp", input, 0.0, 6.0)


@operator("RELU_N1_TO_1", types=REALS)
def relu_n1_to_1(make: OpBuilder, input: Operand) -> Any:
    return make("clamp", input, -1.0, 1.0)


@operator("RELU_0_TO_1", types=REALS)
def relu_0_to_1(make: OpBuilder, input: Operand) -> Any:
    return make("clamp", input, 0.0, 1.0)


@operator("LOGISTIC", types=REALS)
def logistic(make: OpBuilder, input: Operand) -> Any:
    return make("sigmoid", input)


@operator("TANH", types=REALS)
def tanh(make: OpBuilder, input: Operand) -> Any:
    return make("tanh", input)


@operator("ELU", types=REALS)
def elu(make: OpBuilder, input: Operand) -> Any:
    return make("elu", input)


@operator("LEAKY_RELU", options="LeakyReluOptions", types=REALS)
def leaky_relu(make: OpBuilder, input: Operand, *, alpha: float) -> Any:
    return make("select", make("gt", input, 0.0), input, make("mul", input, alpha))


@operator("PRELU", types=REALS)
def prelu(make: OpBuilder, input: Operand, alpha: Operand) -> Any:
    """x, but alpha * x where x is negative; alpha broadcasts."""
    x, a = aligned(make, input, alpha)
    return make("select", make("ge", x, 0.0), x, make("mul", x, a))


@operator("HARD_SWISH", types=REALS)
def hard_swish(make: OpBuilder, input: Operand) -> Any:
    """x * min(max(x + 3, 0), 6) / 6"""
    gate = make("clamp", make("add", input, 3.0), 0.0, 6.0)
    return make("mul", input, make("mul", gate, 1 / 6))


@operator("GELU", options="GeluOptions", types=REALS)
def gelu(make: OpBuilder, input: Operand, *, approximate: bool) -> Any:
    """x / 2 (1 + erf(x / sqrt 2)), or with tanh instead of the error function."""
    if approximate:
        cube = make("mul", make("mul", input, input), input)
        inner = make("add", input, make("mul", cube, 0.044715))
        gate = make("tanh", make("mul", inner, math.sqrt(2 / math.pi)))
    else:
        gate = make("erf", make("mul", input, math.sqrt(0.5)))
    return make("mul", make("mul", input, 0.5), make("add", gate, 1.0))


@operator("SOFTMAX", options="SoftmaxOptions", types=REALS)
def softmax(make: OpBuilder, input: Operand, *, beta: float) -> Any:
    x = input if beta == 1 else make("mul", input, beta)
    return make("softmax", x, axes=(last_axis(x),))


@operator("LOG_SOFTMAX", types=REALS)
def log_softmax(make: OpBuilder, input: Operand) -> Any:
    axes = (last_axis(input),)
    x = make("sub", input, make("max_reduce", input, axes=axes))
    return make("sub", x, make("log", make("sum_reduce", make("exp", x), axes=axes)))


def last_axis(x: Operand) -> int:
    """The last dimension; raises OperatorError for rank 0."""
    if not x.type.rank:
        raise OperatorError("argument/softmax", "input has rank 0")
    return x.type.rank - 1


@operator("FAKE_QUANT", options="FakeQuantOptions", types=REALS)
def fake_quant(
    make: OpBuilder, input: Operand, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Any:
    """x rounded to 2^num_bits steps from min to max, which move so that 0 is a step."""
    if not 2 <= num_bits <= 16 or not min < max:
        message = f"min = {min}, max = {max}, num_bits = {num_bits}"
        raise OperatorError("argument/fake_quant", message)
    low, high = int(narrow_range), (1 << num_bits) - 1
    scale = np.float32((np.float32(max) - np.float32(min)) / np.float32(high - low))
    zero = np.clip(np.floor(low - np.float32(min) / scale + 0.5), low, high)
    least, most = np.float32((low - zero) * scale), np.float32((high - zero) * scale)
    x = make("sub", make("clamp", input, float(least), float(most)), float(least))
    steps = make("floor", make("add", make("mul", x, float(np.float32(1) / scale)), 0.5))
    return make("add", make("mul", steps, float(scale)), float(least))
