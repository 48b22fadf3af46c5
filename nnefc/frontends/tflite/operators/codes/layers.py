"""Convolutions and fully connected layers of codes: sums of integers, requantized in fixed point.

Codes of 16 bits have filters of 8 bits, sums of int64 and biases of int64 or int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import (
    as_codes,
    rescaled,
    rescaled_by_reals,
    rescaled_int16,
    rescaled_once,
    scale_of,
    scales_of,
    zero_tensor,
)
from nnefc.frontends.tflite.operands import channels_first, channels_last
from nnefc.frontends.tflite.operators.layers import (
    check_multiplier,
    group_count,
    rows_of,
    spatial_extents,
)
from nnefc.frontends.tflite.registry import CODES, CODES_16, Integers, Node, operator
from nnefc.frontends.tflite.windows import Window
from nnefc.ir import DType


def _tensors(node: Node, data: int, filter: int) -> tuple[Tensor, Tensor]:
    """The tensors of the data and of the filter, which have the same item type.

    Filters for int8 may have 4 bits; those for int16 have 8 or 4.
    """
    x, w = node.inputs[data], node.inputs[filter]
    assert x is not None
    assert w is not None
    if w.type not in (*CODES, "INT4") or (x.type == "UINT8") != (w.type == "UINT8"):
        message = f"filters of {w.type} for {x.type} are not supported"
        raise OperatorError("tflite/unsupported", message)
    return x, w


def _has_16_bits(x: Tensor) -> bool:
    return x.type in CODES_16


def _results(
    make: OpBuilder,
    sums: Operand,
    bias: Operand | None,
    tensors: tuple[Tensor, Tensor],
    output: Tensor,
    activation: int,
    rescale: Callable[..., Operand] | None = None,
) -> Any:
    """Codes of sums with channels along dimension 1; the bias is in units of the sums."""
    axis = 1
    x, w = tensors
    rank, channels = sums.type.rank, sums.type.dims[axis]
    shape = tuple(-1 if i == axis else 1 for i in range(rank))
    if bias is not None:
        types = (DType.INT32, DType.INT64) if _has_16_bits(x) else (DType.INT32,)
        if bias.type.dtype not in types or bias.type.volume != channels:
            message = f"the bias is a tensor of {bias.type.dtype}{list(bias.type.dims)}"
            raise OperatorError("tflite/shape", message)
        row = tuple(channels if i == axis else 1 for i in range(rank))
        sums = make("add", sums, make.cast(make.reshape(bias, row), sums.type.dtype))
    scales = scales_of(w)
    if len(scales) not in (1, channels):
        message = f"{w} has {len(scales)} scales for {channels} channels"
        raise OperatorError("tflite/quantization", message)
    factors = [scale_of(x) * each / scale_of(output) for each in scales]
    rescale = rescale or (rescaled_int16 if _has_16_bits(x) else rescaled)
    y = rescale(make, sums, factors, shape if len(factors) > 1 else ())
    return as_codes(make, y, output, activation)


@operator("CONV_2D", options="Conv2DOptions", types=(*CODES, *CODES_16))
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
    _, height, width, depth = of_rank("conv", "filter", filter, 4)
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    groups = group_count(depth, x.type.dims[1])
    turned = make.transpose(filter, (0, 3, 1, 2))
    return _convolved(
        make, x, turned, bias, window, padding, groups, fused_activation_function, node
    )


@operator("DEPTHWISE_CONV_2D", options="DepthwiseConv2DOptions", types=(*CODES, *CODES_16))
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
    groups = x.type.dims[1]
    check_multiplier(outputs, groups)
    dilation = dilation_h_factor, dilation_w_factor
    window = Window((height, width), (stride_h, stride_w), dilation)
    turned = make.transpose(filter, (3, 0, 1, 2))
    return _convolved(
        make, x, turned, bias, window, padding, groups, fused_activation_function, node
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
    node: Node,
) -> Any:
    """A convolution of [n, c, h, w]; its border has the zero point."""
    tensors = _tensors(node, 0, 1)
    sums = make(
        "integer_conv",
        x,
        filter,
        *map(zero_tensor, tensors),
        padding=window.padding(x.type.dims[2:], padding),
        stride=window.stride,
        dilation=window.dilation,
        groups=groups,
        wide=_has_16_bits(tensors[0]),
    )
    return channels_last(make, _results(make, sums, bias, tensors, node.output, activation))


@operator("TRANSPOSE_CONV", options="TransposeConvOptions", types=(*CODES, *CODES_16), typed_by=2)
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
    x = channels_first(make, input)
    _, height, width, _ = of_rank("deconv", "weights", weights, 4)
    window = Window((height, width), (stride_h, stride_w))
    tensors = _tensors(node, 2, 1)
    extents = spatial_extents(output_shape)
    sums = make(
        "integer_deconv",
        x,
        make.transpose(weights, (3, 0, 1, 2)),
        *map(zero_tensor, tensors),
        padding=window.transposed_padding(x.type.dims[2:], extents, padding),
        stride=window.stride,
        wide=_has_16_bits(tensors[0]),
    )
    y = _results(make, sums, bias, tensors, node.output, fused_activation_function)
    return channels_last(make, y)


@operator("FULLY_CONNECTED", options="FullyConnectedOptions", types=(*CODES, *CODES_16))
def fully_connected(
    make: OpBuilder,
    input: Operand,
    weights: Operand,
    bias: Operand | None = None,
    *,
    fused_activation_function: int,
    weights_format: int,
    keep_num_dims: bool,
    node: Node,
) -> Any:
    """input [.., depth], weights [units, depth], bias [units]."""
    x, shape = rows_of(make, input, weights, weights_format, keep_num_dims=keep_num_dims)
    tensors = _tensors(node, 0, 1)
    zeros = map(zero_tensor, tensors)
    has_16_bits = _has_16_bits(tensors[0])
    sums = make("integer_matmul", x, weights, *zeros, transposeB=True, wide=has_16_bits)
    rescale = rescaled_by_reals if has_16_bits else rescaled_once
    y = _results(make, sums, bias, tensors, node.output, fused_activation_function, rescale)
    return make.reshape(y, shape)


@operator("BATCH_MATMUL", options="BatchMatMulOptions", types=CODES_16)
def batch_matmul(
    make: OpBuilder, x: Operand, y: Operand, *, adj_x: bool, adj_y: bool, node: Node
) -> Any:
    """Products of two matrices of codes."""
    first, second = node.inputs[:2]
    assert first is not None
    assert second is not None
    rank = max(x.type.rank, y.type.rank)
    a, b = (make.aligned_right(each, rank) for each in (x, y))
    zeros = map(zero_tensor, (first, second))
    sums = make("integer_matmul", a, b, *zeros, transposeA=adj_x, transposeB=adj_y, wide=True)
    factor = scale_of(first) * scale_of(second) / scale_of(node.output)
    return as_codes(make, rescaled_int16(make, sums, [factor]), node.output)
