"""Convolutions of volumes of reals; filters are [depth, height, width, inputs, outputs]."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.operators.layers import bias_row, group_count
from nnefc.frontends.tflite.registry import REALS, Integers, operator
from nnefc.frontends.tflite.windows import Window

_FIRST, _LAST = (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)
"""Orders of dimensions with channels as dimension 1, and with channels last again."""


@operator("CONV_3D", options="Conv3DOptions", types=REALS)
def conv_3d(
    make: OpBuilder,
    input: Operand,
    filter: Operand,
    bias: Operand | None = None,
    *,
    padding: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d_factor: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
    fused_activation_function: int,
) -> Any:
    """input [n, d, h, w, c], filter [d, h, w, c / groups, outputs], bias [outputs]."""
    of_rank("conv", "input", input, 5)
    *size, depth, _ = of_rank("conv", "filter", filter, 5)
    strides = stride_d, stride_h, stride_w
    dilations = dilation_d_factor, dilation_h_factor, dilation_w_factor
    window = Window(tuple(size), strides, dilations)
    x = make.transpose(input, _FIRST)
    y = make(
        "conv",
        x,
        make.transpose(filter, (4, 3, 0, 1, 2)),
        *bias_row(make, bias),
        padding=window.padding(x.type.dims[2:], padding),
        stride=window.stride,
        dilation=window.dilation,
        groups=group_count(depth, x.type.dims[1]),
    )
    return activated(make, make.transpose(y, _LAST), fused_activation_function)


@operator("CONV_3D_TRANSPOSE", options="Conv3DOptions", types=REALS, typed_by=2)
def conv_3d_transpose(
    make: OpBuilder,
    output_shape: Integers,
    filter: Operand,
    input: Operand,
    bias: Operand | None = None,
    *,
    padding: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d_factor: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
    fused_activation_function: int,
) -> Any:
    """input [n, d, h, w, c], filter [d, h, w, outputs, c], bias [outputs]."""
    of_rank("deconv", "input", input, 5)
    *size, _, _ = of_rank("deconv", "filter", filter, 5)
    if len(output_shape) != 5 or min(output_shape) < 1:
        raise OperatorError("argument/deconv", f"output_shape = {list(output_shape)}")
    strides = stride_d, stride_h, stride_w
    dilations = dilation_d_factor, dilation_h_factor, dilation_w_factor
    window = Window(tuple(size), strides, dilations)
    x = make.transpose(input, _FIRST)
    y = make(
        "deconv",
        x,
        make.transpose(filter, (4, 3, 0, 1, 2)),
        *bias_row(make, bias),
        padding=window.transposed_padding(x.type.dims[2:], output_shape[1:4], padding),
        stride=window.stride,
        dilation=window.dilation,
    )
    return activated(make, make.transpose(y, _LAST), fused_activation_function)
