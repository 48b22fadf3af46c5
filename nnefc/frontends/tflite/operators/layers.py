"""Convolutions and fully connected layers of reals; filters have channels last."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import channels_first, channels_last
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.registry import REALS, Integers, operator
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
) -> Any:
    """input [n, h, w, c], filter [outputs, h, w, c / groups], bias [outputs]."""
    x = channels_first(make, input)
    outputs, height, width, depth = of_rank("conv", "filter", filter, 4)
    del outputs
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    groups = group_count(depth, x.type.dims[1])
    turned = make.transpose(filter, (0, 3, 1, 2))
    return _convolved(make, x, turned, bias, window, padding, groups, fused_activation_function)


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
) -> Any:
    """input [n, h, w, c], filter [1, h, w, c * multiplier], bias [c * multiplier]."""
    x = channels_first(make, input)
    _, height, width, outputs = of_rank("conv", "filter", filter, 4)
    check_multiplier(outputs, x.type.dims[1])
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    turned = make.transpose(filter, (3, 0, 1, 2))
    return _convolved(
        make, x, turned, bias, window, padding, x.type.dims[1], fused_activation_function
    )


def _convolved(
    make: OpBuilder,
    x: Operand,
    filter: Operand,
    bias: Operand | None,
    window: Window,
    padding: int,
    groups: int,
    activation: int,
) -> Any:
    """[n, h, w, outputs] of x [n, c, h, w] and a filter [outputs, c / groups, h, w]."""
    y = make(
        "conv",
        x,
        filter,
        *bias_row(make, bias),
        padding=window.padding(x.type.dims[2:], padding),
        stride=window.stride,
        dilation=window.dilation,
        groups=groups,
    )
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
) -> Any:
    """input [n, h, w, c], weights [outputs, h, w, c], bias [outputs]."""
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
) -> Any:
    """input [.., depth], weights [units, depth], bias [units]."""
    x, shape = rows_of(make, input, weights, weights_format, keep_num_dims=keep_num_dims)
    if weights.type.dtype is not input.type.dtype:
        raise OperatorError("tflite/unsupported", f"weights of {weights.type.dtype} for reals")
    y = make("linear", x, weights, *bias_row(make, bias))
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


@operator("BATCH_MATMUL", options="BatchMatMulOptions", types=REALS)
def batch_matmul(make: OpBuilder, x: Operand, y: Operand, *, adj_x: bool, adj_y: bool) -> Any:
    rank = max(x.type.rank, y.type.rank)
    a, b = (make.aligned_right(each, rank) for each in (x, y))
    return make("matmul", a, b, transposeA=adj_x, transposeB=adj_y)
