"""Element-wise arithmetic of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import (
    as_codes,
    centered,
    codes_between,
    int32,
    real,
    require_same_scale,
    rescaled,
    scale_of,
    zero_of,
    zero_tensor,
)
from nnefc.frontends.tflite.float_codes import LEFT_SHIFT, bounds_of, sum_factors
from nnefc.frontends.tflite.operands import aligned, binary, channels_first, channels_last
from nnefc.frontends.tflite.operators.activations import RELU, RELU6, RELU_N1_TO_1
from nnefc.frontends.tflite.registry import CODES, CODES_16, Node, operator
from nnefc.ir import DType

_LEFT_SHIFT_16: Final = 15
"""Bits by which operands of sums of 16 bits are shifted before they are scaled."""
_PLANES: Final = 4
"""The rank of tensors with batch, rows, columns and channels."""


def operands_of(node: Node) -> tuple[Tensor, Tensor]:
    """The tensors of the two operands."""
    x, y = node.inputs[:2]
    assert x is not None
    assert y is not None
    return x, y


def _sum(make: OpBuilder, name: str, x: Operand, y: Operand, node: Node, activation: int) -> Any:
    """x + y or x - y: both are scaled to twice the larger scale, then to that of the result."""
    tensors, output = operands_of(node), node.output
    left = _LEFT_SHIFT_16 if output.type in CODES_16 else LEFT_SHIFT
    shifts = _shifts_of_powers(node)
    if shifts is not None:
        pair = zip(aligned(make, x, y), shifts, strict=True)
        sums = make(name, *(_halved(make, *each) for each in pair))
        return as_codes(make, sums, output, activation)
    if not any(isinstance(operand, KnownTensor) for operand in (x, y)):
        sign = -1 if name == "sub" else 1
        factors = sum_factors(*tensors, output, activation, sign)
        if factors is not None:
            return _in_floats(make, name, (x, y), factors, node, activation)
    twice = 2.0 * max(map(scale_of, tensors))
    scaled: list[Operand] = []
    for operand, tensor in zip(aligned(make, x, y), tensors, strict=True):
        shifted = make("shift_left", centered(make, operand, tensor), int32(left))
        scaled.append(rescaled(make, shifted, [scale_of(tensor) / twice]))
    sums = make(name, *scaled)
    factor = twice / ((1 << left) * scale_of(output))
    return as_codes(make, rescaled(make, sums, [factor]), output, activation)


def _shifts_of_powers(node: Node) -> tuple[int, int] | None:
    """How often operands of 16 bits are halved whose scales are powers of two, as in cells of an
    LSTM; None for other scales or zero points, or if the option excludes it.
    """
    options = node.operator.options
    if node.output.type not in CODES_16 or not options.get("pot_scale_int16", True):
        return None
    tensors = *operands_of(node), node.output
    splits = [math.frexp(scale_of(each)) for each in tensors]
    if any(map(zero_of, tensors)) or any(fraction != 0.5 for fraction, _ in splits):
        return None
    first, second = (splits[2][1] - exponent for _, exponent in splits[:2])
    return (first, second) if min(first, second) == 0 else None


def _halved(make: OpBuilder, x: Operand, times: int) -> Operand:
    wide = make.cast(x, DType.INT32)
    return make("rounding_shift", wide, int32(min(times, 31))) if times else wide


def _in_floats(
    make: OpBuilder,
    name: str,
    operands: Sequence[Operand],
    factors: Sequence[float],
    node: Node,
    activation: int,
) -> Any:
    """The rounded sum of reals, in units of the scale of the result."""
    x, y = aligned(make, *operands)
    # as results of convolutions, which add the other operand
    is_plane = x.type.rank == _PLANES and x.type.dims == y.type.dims
    both = [channels_first(make, each) if is_plane else each for each in (x, y)]
    reals = [
        make("dequantize", operand, real(factor), zero_tensor(tensor))
        for operand, factor, tensor in zip(both, factors, operands_of(node), strict=True)
    ]
    low, high = bounds_of(node.output, activation)
    sums = make(name, *reals)
    if activation:
        sums = make("max", make("min", sums, real(high)), real(low))
    codes = make("quantize", sums, real(1), zero_tensor(node.output))
    return channels_last(make, codes) if is_plane else codes


@operator("ADD", options="AddOptions", types=(*CODES, *CODES_16))
def add(
    make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int, node: Node
) -> Any:
    return _sum(make, "add", x, y, node, fused_activation_function)


@operator("SUB", options="SubOptions", types=(*CODES, *CODES_16))
def sub(
    make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int, node: Node
) -> Any:
    return _sum(make, "sub", x, y, node, fused_activation_function)


@operator("MUL", options="MulOptions", types=(*CODES, *CODES_16))
def mul(
    make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int, node: Node
) -> Any:
    """The factor is computed in float32; products of 16 bits less a zero point exceed int32."""
    tensors, output = operands_of(node), node.output
    if output.type in CODES_16 and any(map(zero_of, (*tensors, output))):
        message = "products of codes of 16 bits need zero points of 0"
        raise OperatorError("tflite/quantization", message)
    products = make(
        "mul",
        *(centered(make, *pair) for pair in zip(aligned(make, x, y), tensors, strict=True)),
    )
    first, second, result = (np.float32(scale_of(each)) for each in (*tensors, output))
    with np.errstate(all="ignore"):
        factor = float(first * second / result)
    scaled = rescaled(make, products, [factor])
    return as_codes(make, scaled, output, fused_activation_function)


@operator("MAXIMUM", types=(*CODES, *CODES_16))
def maximum(make: OpBuilder, x: Operand, y: Operand, node: Node) -> Any:
    return _selected(make, "max", x, y, node)


@operator("MINIMUM", types=(*CODES, *CODES_16))
def minimum(make: OpBuilder, x: Operand, y: Operand, node: Node) -> Any:
    return _selected(make, "min", x, y, node)


def _selected(make: OpBuilder, name: str, x: Operand, y: Operand, node: Node) -> Any:
    for tensor in operands_of(node):
        require_same_scale(name, tensor, node.output)
    return binary(make, name, x, y)


def _requantized(make: OpBuilder, input: Operand, node: Node, activation: int) -> Any:
    """Codes in the scale of the result, limited by an activation."""
    source = node.inputs[0]
    assert source is not None
    scaled = rescaled(
        make, centered(make, input, source), [scale_of(source) / scale_of(node.output)]
    )
    return as_codes(make, scaled, node.output, activation)


@operator("RELU", types=(*CODES, *CODES_16))
def relu(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _requantized(make, input, node, RELU)


@operator("RELU6", types=(*CODES, *CODES_16))
def relu6(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _requantized(make, input, node, RELU6)


@operator("RELU_N1_TO_1", types=(*CODES, *CODES_16))
def relu_n1_to_1(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _requantized(make, input, node, RELU_N1_TO_1)


@operator("RELU_0_TO_1", types=(*CODES, *CODES_16))
def relu_0_to_1(make: OpBuilder, input: Operand, node: Node) -> Any:
    low, high = codes_between(node.output, 0.0, 1.0)
    codes = make.cast(_requantized(make, input, node, 0), DType.INT32)
    limited = make("max", make("min", codes, int32(high)), int32(low))
    return make.cast(limited, input.type.dtype)


@operator("ABS", types=("INT8",))
def abs_(make: OpBuilder, input: Operand, node: Node) -> Any:
    source = node.inputs[0]
    assert source is not None
    size = make("abs", centered(make, input, source))
    scaled = rescaled(make, size, [scale_of(source) / scale_of(node.output)])
    return as_codes(make, scaled, node.output)


@operator("LEAKY_RELU", options="LeakyReluOptions", types=(*CODES, *CODES_16))
def leaky_relu(make: OpBuilder, input: Operand, *, alpha: float, node: Node) -> Any:
    """Codes below the zero point have a factor of their own, computed in float32."""
    source = node.inputs[0]
    assert source is not None
    x = centered(make, input, source)
    scale, result = (np.float32(scale_of(each)) for each in (source, node.output))
    with np.errstate(all="ignore"):
        factors = [float(each * scale / result) for each in np.array([1, alpha], np.float32)]
    scaled = (rescaled(make, x, [each]) for each in factors)
    y = make("select", make("ge", x, int32(0)), *scaled)
    return as_codes(make, y, node.output)


@operator("DIV", options="DivOptions", types=("UINT8",))
def div(
    make: OpBuilder, x: Operand, y: Operand, *, fused_activation_function: int, node: Node
) -> Any:
    """The quotient in float64, halves away from zero; within one unit."""
    tensors, output = operands_of(node), node.output
    first, second = (
        make.cast(centered(make, *pair), DType.FLOAT64)
        for pair in zip(aligned(make, x, y), tensors, strict=True)
    )
    factor = scale_of(tensors[0]) / scale_of(tensors[1]) / scale_of(output)
    quotient = make("mul", make("div", first, second), factor)
    is_negative = make("lt", quotient, 0.0)
    away = make("select", is_negative, make("sub", quotient, 0.5), make("add", quotient, 0.5))
    limited = make("max", make("min", away, 1e6), -1e6)
    return as_codes(make, make.cast(limited, DType.INT32), output, fused_activation_function)


@operator("QUANTIZE", types=(*CODES, *CODES_16))
def requantize(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _requantized(make, input, node, 0)
