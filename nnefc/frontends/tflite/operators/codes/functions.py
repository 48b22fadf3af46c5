"""Functions of codes by the formula for reals: dequantized, computed, and quantized again.

Results differ from those of the reference kernels by at most one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.tflite.fixed_point import (
    as_codes,
    int32,
    nearest,
    quantize_multiplier,
    real,
    scale_of,
    zero_tensor,
)
from nnefc.frontends.tflite.operators import activations, pooling
from nnefc.frontends.tflite.registry import CODES, Node, operator
from nnefc.ir import DType

_LARGEST: Final = 2**15 - 1
"""The largest number of 16 bits."""


def scale_tensor(tensor: Tensor) -> KnownTensor:
    """The scale of a tensor."""
    return real(scale_of(tensor))


def _by_reals(
    make: OpBuilder, input: Operand, node: Node, function: Callable[[Operand], Any]
) -> Any:
    """A function of reals, of one tensor of codes."""
    source, output = node.inputs[0], node.output
    assert source is not None
    x = make("dequantize", input, scale_tensor(source), zero_tensor(source))
    return make("quantize", function(x), scale_tensor(output), zero_tensor(output))


@operator("LOGISTIC", types=CODES)
def logistic(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _by_reals(make, input, node, lambda x: make("sigmoid", x))


@operator("TANH", types=CODES)
def tanh(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _by_reals(make, input, node, lambda x: make("tanh", x))


@operator("HARD_SWISH", types=CODES)
def hard_swish(make: OpBuilder, input: Operand, node: Node) -> Any:
    """x min(max(x / 3 + 1, 0), 2) / 2 in numbers of 16 bits, as the reference kernel has it.

    Fractions have 15 bits, and codes of the input 7 bits more.  A table in compiled models.
    """
    source, output = node.inputs[0], node.output
    assert source is not None
    fine = np.float32(1 / 128) * np.float32(scale_of(source))
    to_output, exponent = _multiplier_of_16_bits(float(fine / np.float32(scale_of(output))))
    to_unit, unit_exponent = _multiplier_of_16_bits(float(fine / np.float32(3 / 32768)))
    if exponent > 0:  # LiteRT refuses them
        return _by_reals(make, input, node, lambda x: activations.hard_swish(make, x))
    codes = make("dequantize", input, real(1), zero_tensor(source))
    x = make("shift_left", make.cast(codes, DType.INT32), int32(7))
    unit = _shifted_left(make, x, unit_exponent - 1)
    unit = _shifted_left(make, _high_product(make, unit, to_unit), min(unit_exponent, 1))
    if unit_exponent < 0:
        unit = make("rounding_shift", unit, int32(-unit_exponent))
    factor = make("shift_right", make("add", unit, int32(1 << 15)), int32(1))
    product = make("mul", factor, _high_product(make, x, to_output))
    size = make("shift_right", make("abs", product), int32(15))
    whole = make("select", make("lt", product, int32(0)), make("neg", size), size)
    y = make("rounding_shift", whole, int32(-exponent))
    return make("quantize", make.cast(y, DType.FLOAT32), real(1), zero_tensor(output))


def _multiplier_of_16_bits(factor: float) -> tuple[int, int]:
    """A multiplier below 2**15 and a shift: factor = multiplier / 2**15 * 2**shift, rounded."""
    multiplier, shift = quantize_multiplier(factor)
    return min(multiplier + (1 << 15) >> 16, _LARGEST), shift


def _high_product(make: OpBuilder, x: Operand, multiplier: int) -> Operand:
    """The product with a fraction, halves up."""
    product = make("add", make("mul", x, int32(multiplier)), int32(1 << 14))
    return make("shift_right", product, int32(15))


def _shifted_left(make: OpBuilder, x: Operand, count: int) -> Operand:
    """x 2**count, saturated to 16 bits; `count`: negative for none."""
    if count <= 0:
        return x
    shifted = make("shift_left", x, int32(min(count, 16)))
    return make("max", make("min", shifted, int32(_LARGEST)), int32(-_LARGEST - 1))


@operator("SOFTMAX", options="SoftmaxOptions", types=CODES)
def softmax(make: OpBuilder, input: Operand, *, beta: float, node: Node) -> Any:
    return _by_reals(make, input, node, lambda x: activations.softmax(make, x, beta=beta))


@operator("L2_NORMALIZATION", options="L2NormOptions", types=CODES)
def l2_normalization(
    make: OpBuilder, input: Operand, *, fused_activation_function: int, node: Node
) -> Any:
    def normalized(x: Operand) -> Any:
        return pooling.l2_normalization(
            make, x, fused_activation_function=fused_activation_function
        )

    return _by_reals(make, input, node, normalized)


@operator("LOG_SOFTMAX", types=CODES)
def log_softmax(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _by_reals(make, input, node, lambda x: activations.log_softmax(make, x))


@operator("GELU", options="GeluOptions", types=CODES)
def gelu(make: OpBuilder, input: Operand, *, approximate: bool, node: Node) -> Any:
    return _by_reals(
        make, input, node, lambda x: activations.gelu(make, x, approximate=approximate)
    )


@operator("LOG", types=("INT8",))
def log(make: OpBuilder, input: Operand, node: Node) -> Any:
    """Of numbers that are not positive, the smallest code."""
    return _by_reals(make, input, node, lambda x: make("log", make("max", x, 0.0)))


def _function(name: str, operation: str) -> None:
    """Register an operator that is one operation of reals."""

    def function(make: OpBuilder, input: Operand, node: Node) -> Any:
        return _by_reals(make, input, node, lambda x: make(operation, x))

    operator(name, types=("INT8",))(function)


for _name, _operation in (("ELU", "elu"), ("EXP", "exp"), ("RSQRT", "rsqrt")):
    _function(_name, _operation)


@operator("SQRT", types=("INT8",))
def sqrt(make: OpBuilder, input: Operand, node: Node) -> Any:
    """The fraction of the code is dropped, as LiteRT does."""
    source = node.inputs[0]
    assert source is not None
    x = make("dequantize", input, scale_tensor(source), zero_tensor(source))
    root = make("div", make("sqrt", make("max", x, 0.0)), scale_tensor(node.output))
    limited = make("min", root, 512.0)
    return as_codes(make, make.cast(limited, DType.INT32), node.output)


@operator("QUANTIZE", types=("FLOAT32",))
def quantize(make: OpBuilder, input: Operand, node: Node) -> Any:
    """The nearest codes, halves away from zero."""
    units = make("div", input, scale_tensor(node.output))
    return make("quantize", nearest(make, units), real(1.0), zero_tensor(node.output))
