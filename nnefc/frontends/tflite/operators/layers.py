"""Convolutions and fully connected layers of reals; filters have channels last."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.hybrid import (
    Codes,
    Matrix,
    convolved,
    matrix_products,
    products,
    weights_of,
)
from nnefc.frontends.tflite.operands import channels_first, channels_last
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.registry import REALS, Integers, Node, operator
from nnefc.frontends.tflite.windows import Window


def group_count(filter_channels: int, channels: int) -> int:
    """The groups of a convolution whose filters have fewer channels than its input."""
    if not filter_channels or channels % filter_channels:
        message = f"filters have {filter_channels} channels, the input {channels}"
        raise OperatorError("tflite/shape", message)
    return channels // filter_channels


def bias_row(make: OpBuilder, bias: Operand | None) -> tuple[Operand, ...]:
    """The bias as [1, channels]; empty if it is absent."""
    return () if bias is None else (make.reshape(bias, (1, bias.type.volume)),)


@operator("CONV_2D", options="Conv2DOptions", types=REALS)
def conv_2d(
    make: OpBuilder,
    input: Operand,
    filter: Operand,
    bias: Operand | None = None,
    *,
    padding: int,
    stride_w: int,
    stride_h: int,
    fused_activation_function: int,
    dilation_w_factor: int,
    dilation_h_factor: int,
    node: Node,
) -> Any:
    """input [n, h, w, c], filter [outputs, h, w, c / groups], bias [outputs]."""
    x = channels_first(make, input)
    outputs, height, width, depth = of_rank("conv", "filter", filter, 4)
    del outputs
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    groups = group_count(depth, x.type.dims[1])
    weights = weights_of(make, make.transpose(filter, (0, 3, 1, 2)), node.inputs[1])
    if isinstance(weights, Codes):  # LiteRT rounds so
        weights = replace(weights, asymmetric=len(weights.scales) > 1)
    return _convolved(make, x, weights, bias, window, padding, groups, fused_activation_function)


@operator("DEPTHWISE_CONV_2D", options="DepthwiseConv2DOptions", types=REALS)
def depthwise_conv_2d(
    make: OpBuilder,
    input: Operand,
    filter: Operand,
    bias: Operand | None = None,
    *,
    padding: int,
    stride_w: int,
    stride_h: int,
    fused_activation_function: int,
    dilation_w_factor: int,
    dilation_h_factor: int,
    node: Node,
) -> Any:
    """input [n, h, w, c], filter [1, h, w, c * multiplier], bias [c * multiplier]."""
    x = channels_first(make, input)
    _, height, width, outputs = of_rank("conv", "filter", filter, 4)
    check_multiplier(outputs, x.type.dims[1])
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    turned = make.transpose(filter, (3, 0, 1, 2))
    weights = weights_of(make, turned, node.inputs[1], asymmetric=True)
    return _convolved(
        make, x, weights, bias, window, padding, x.type.dims[1], fused_activation_function
    )


def _convolved(
    make: OpBuilder,
    x: Operand,
    filter: Matrix,
    bias: Operand | None,
    window: Window,
    padding: int,
    groups: int,
    activation: int,
) -> Any:
    """[n, h, w, outputs] of x [n, c, h, w] and a filter [outputs, c / groups, h, w]."""
    attributes: dict[str, Any] = {
        "padding": window.padding(x.type.dims[2:], padding),
        "stride": window.stride,
        "dilation": window.dilation,
        "groups": groups,
    }
    if isinstance(filter, Codes):
        y = convolved(make, x, filter, **attributes)
        if bias is not None:
            y = make("add", y, make.reshape(bias, (1, bias.type.volume, 1, 1)))
    else:
        y = make("conv", x, filter, *bias_row(make, bias), **attributes)
    return activated(make, channels_last(make, y), activation)


def check_multiplier(outputs: int, channels: int) -> None:
    """Raise OperatorError unless each channel has as many outputs."""
    if not channels or outputs % channels:
        message = f"{outputs} filters are no multiple of {channels} channels"
        raise OperatorError("tflite/shape", message)


@operator("TRANSPOSE_CONV", options="TransposeConvOptions", types=REALS, typed_by=2)
def transpose_conv(
    make: OpBuilder,
    output_shape: Integers,
    weights: Operand,
    input: Operand,
    bias: Operand | None = None,
    *,
    padding: int,
    stride_w: int,
    stride_h: int,
    fused_activation_function: int,
    node: Node,
) -> Any:
    """input [n, h, w, c], weights [outputs, h, w, c], bias [outputs]."""
    if not weights.type.dtype.is_float:
        message = f"{node.inputs[1]} has items of {weights.type.dtype} for reals"
        raise OperatorError("tflite/unsupported", message)
    x = channels_first(make, input)
    _, height, width, _ = of_rank("deconv", "weights", weights, 4)
    extents = spatial_extents(output_shape)
    window = Window((height, width), (stride_h, stride_w))
    y = make(
        "deconv",
        x,
        make.transpose(weights, (3, 0, 1, 2)),
        *bias_row(make, bias),
        padding=window.transposed_padding(x.type.dims[2:], extents, padding),
        stride=window.stride,
    )
    return activated(make, channels_last(make, y), fused_activation_function)


def spatial_extents(output_shape: Integers) -> tuple[int, int]:
    """Height and width of an output shape; raises OperatorError for another rank."""
    if len(output_shape) != 4 or min(output_shape) < 1:
        raise OperatorError("argument/deconv", f"output_shape = {list(output_shape)}")
    return output_shape[1], output_shape[2]


@operator("FULLY_CONNECTED", options="FullyConnectedOptions", types=REALS)
def fully_connected(
    make: OpBuilder,
    input: Operand,
    weights: Operand,
    bias: Operand | None = None,
    *,
    fused_activation_function: int,
    weights_format: int,
    keep_num_dims: bool,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """input [.., depth], weights [units, depth], bias [units]."""
    x, shape = rows_of(make, input, weights, weights_format, keep_num_dims=keep_num_dims)
    matrix = weights_of(make, weights, node.inputs[1], asymmetric=asymmetric_quantize_inputs)
    y = linear(make, x, matrix, bias)
    return activated(make, make.reshape(y, shape), fused_activation_function)


def rows_of(
    make: OpBuilder, input: Operand, weights: Operand, weights_format: int, *, keep_num_dims: bool
) -> tuple[Operand, tuple[int, ...]]:
    """The input as a matrix with rows of the depth of the weights, and the shape of the result."""
    if weights_format:
        raise OperatorError("tflite/unsupported", "shuffled weights")
    units, depth = of_rank("linear", "weights", weights, 2)
    dims = input.type.dims
    total = math.prod(dims)
    if not depth or total % depth or (keep_num_dims and dims[-1:] != (depth,)):
        message = f"input has shape {list(dims)}, weights {list(weights.type.dims)}"
        raise OperatorError("tflite/shape", message)
    rows = total // depth
    shape = (*dims[:-1], units) if keep_num_dims else (rows, units)
    return make.reshape(input, (rows, depth)), shape


def linear(make: OpBuilder, x: Operand, weights: Matrix, bias: Operand | None) -> Operand:
    """x W^T + b for x [rows, depth] and W [units, depth]."""
    if not isinstance(weights, Codes):
        return make("linear", x, weights, *bias_row(make, bias))
    y = products(make, x, weights)
    return y if bias is None else make("add", y, *bias_row(make, bias))


@operator("BATCH_MATMUL", options="BatchMatMulOptions", types=REALS)
def batch_matmul(
    make: OpBuilder,
    x: Operand,
    y: Operand,
    *,
    adj_x: bool,
    adj_y: bool,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    rank = max(x.type.rank, y.type.rank)
    a, b = (make.aligned_right(each, rank) for each in (x, y))
    weights = weights_of(make, b, node.inputs[1], asymmetric=asymmetric_quantize_inputs)
    if isinstance(weights, Codes):
        turned = (*range(rank - 2), rank - 1, rank - 2)
        rows = make.transpose(a, turned) if adj_x else a
        return matrix_products(make, rows, weights, is_turned=adj_y)
    return make("matmul", a, b, transposeA=adj_x, transposeB=adj_y)
