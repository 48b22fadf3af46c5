"""Functions of codes by the formula for reals: dequantized, computed, and quantized again.

Results differ from those of the reference kernels by at most one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.tflite.fixed_point import as_codes, nearest, real, scale_of, zero_tensor
from nnefc.frontends.tflite.operators import activations, pooling
from nnefc.frontends.tflite.registry import CODES, Node, operator
from nnefc.ir import DType


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
    return _by_reals(make, input, node, lambda x: activations.hard_swish(make, x))


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
