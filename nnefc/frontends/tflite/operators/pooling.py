"""Pooling and normalisation of reals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import channels_first, channels_last
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.registry import REALS, Node, operator
from nnefc.frontends.tflite.windows import Pairs, Window

EPSILON = 1e-6
"""The least norm of `L2_NORMALIZATION`."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """The attributes of a pooling operation on [n, c, h, w]."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs

    def attributes(self) -> dict[str, Any]:
        return {"size": self.size, "stride": self.stride, "padding": self.padding}


def pooling_of(node: Node, x: Operand) -> Pooling:
    """The window of an operator with `Pool2DOptions`, over [n, c, h, w]."""
    options = node.operator.options
    if node.operator.options_table != "Pool2DOptions":
        raise OperatorError("tflite/arguments", "it has no Pool2DOptions")
    size = options["filter_height"], options["filter_width"]
    window = Window(size, (options["stride_h"], options["stride_w"]))
    padding = window.padding(x.type.dims[2:], options["padding"])
    return Pooling((1, 1, *window.size), (1, 1, *window.stride), ((0, 0), (0, 0), *padding))


def _pooled(make: OpBuilder, name: str, input: Operand, node: Node) -> Any:
    """Means and maxima leave out the border."""
    x = channels_first(make, input)
    pooling = pooling_of(node, x)
    y = make(name, x, border="ignore", **pooling.attributes())
    return activated(
        make, channels_last(make, y), node.operator.options["fused_activation_function"]
    )


@operator("AVERAGE_POOL_2D", types=REALS)
def average_pool_2d(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _pooled(make, "avg_pool", input, node)


@operator("MAX_POOL_2D", types=REALS)
def max_pool_2d(make: OpBuilder, input: Operand, node: Node) -> Any:
    return _pooled(make, "max_pool", input, node)


@operator("L2_POOL_2D", types=REALS)
def l2_pool_2d(make: OpBuilder, input: Operand, node: Node) -> Any:
    """The root of the mean square."""
    x = channels_first(make, input)
    squares = make("mul", x, x)
    means = make("avg_pool", squares, border="ignore", **pooling_of(node, x).attributes())
    y = channels_last(make, make("sqrt", means))
    return activated(make, y, node.operator.options["fused_activation_function"])


@operator("L2_NORMALIZATION", options="L2NormOptions", types=REALS)
def l2_normalization(make: OpBuilder, input: Operand, *, fused_activation_function: int) -> Any:
    """The vectors of the last dimension divided by their norm."""
    squares = make("sum_reduce", make("mul", input, input), axes=(input.type.rank - 1,))
    norm = make("max", make("sqrt", squares), EPSILON)
    return activated(make, make("div", input, norm), fused_activation_function)


@operator("LOCAL_RESPONSE_NORMALIZATION", options="LocalResponseNormalizationOptions", types=REALS)
def local_response_normalization(
    make: OpBuilder, input: Operand, *, radius: int, bias: float, alpha: float, beta: float
) -> Any:
    """x / (bias + alpha * sum of squares of 2 radius channels, from `radius` before on)^beta

    The last channel of TensorFlow's window is not in that of the reference kernels.
    """
    if radius < 1:
        raise OperatorError("argument/local_response_normalization", f"radius = {radius}")
    rank = input.type.rank
    size = (*(1,) * (rank - 1), 2 * radius)
    padding = (*((0, 0),) * (rank - 1), (radius, radius - 1))
    sums = make("box", make("mul", input, input), size=size, padding=padding, border="constant")
    base = make("add", make("mul", sums, alpha), bias)
    return make("mul", input, make("pow", base, -beta))
