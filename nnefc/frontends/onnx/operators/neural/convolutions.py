"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.recurrent.activations import activation
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.channels_last import of_channels_last
from nnefc.frontends.onnx.operators.neural.window_attributes import (
    ConvolutionAttributes,
    Pairs,
    WindowAttributes,
)
from nnefc.frontends.onnx.registry import MICROSOFT, Floats, Integers, operator


@operator("Conv")
def conv(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    B: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
) -> Any:
    """X [n, c, ..], W [m, c / group, ..], B [m]."""
    return convolution(make, "conv", X, W, *_bias(make, B), attributes=attributes)


def convolution(
    make: OpBuilder,
    name: str,
    X: Operand,
    W: Operand,
    *others: Operand,
    attributes: ConvolutionAttributes,
) -> Operand:
    """The operation `name`, with the window and the groups of `attributes`."""
    window = attributes.window("conv", X, W)
    return make(
        name,
        X,
        W,
        *others,
        padding=window.padding(X.type.dims[2:]),
        stride=window.strides,
        dilation=window.dilations,
        groups=attributes.group,
    )


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    B: Operand | None = None,
    Z: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
    activation: str = "",
    activation_params: Floats = (),
) -> Any:
    """An activation of a convolution, to which Z is added before."""
    y = conv(make, X, W, B, attributes=attributes)
    if Z is not None:
        y = make("add", y, Z)
    return _activated(make, y, activation, activation_params)


operator("NhwcConv", domain=MICROSOFT)(of_channels_last(conv, "X"))
operator("NhwcFusedConv", domain=MICROSOFT)(of_channels_last(fused_conv, "X", "Z"))


def _activated(make: OpBuilder, y: Operand, name: str, parameters: Floats) -> Operand:
    """An activation of `y`; no name is the identity."""
    return activation(make, name, parameters)(make, y) if name else y


@operator("ConvTranspose")
def conv_transpose(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    B: Operand | None = None,
    *,
    attributes: ConvolutionAttributes,
    output_padding: Integers = (),
    output_shape: Integers = (),
) -> Any:
    """X [n, c, ..], W [c, m / group, ..], B [m]; `output_shape` has the spatial extents."""
    window = attributes.window("deconv", X, W)
    spatial = X.type.rank - 2
    extra = output_padding or (0,) * spatial
    extents = output_shape[-spatial:] if len(output_shape) == spatial + 2 else output_shape
    if len(extra) != spatial or len(extents) not in (0, spatial):
        message = f"output_padding = {list(output_padding)}, output_shape = {list(output_shape)}"
        raise OperatorError("argument/deconv", f"{message} for {spatial} spatial dimensions")
    padding = _transposed_padding(window, X.type.dims[2:], extra, extents)
    return make(
        "deconv",
        X,
        W,
        *_bias(make, B),
        padding=padding,
        stride=window.strides,
        dilation=window.dilations,
        groups=attributes.group,
    )


def _transposed_padding(
    window: WindowAttributes, inputs: Integers, extra: Integers, outputs: Integers
) -> Pairs:
    """What is cut from the result on both sides, negative where it is extended.

    `inputs`: the spatial extents of the input.  `extra`: `output_padding`.  `outputs`: the spatial
    extents of the result, if they are given.
    """
    if not outputs and not window.is_same:
        given = zip(window.explicit, extra, strict=True)
        return tuple((before, after - more) for (before, after), more in given)
    pairs: list[tuple[int, int]] = []
    wanted = outputs or [n * s for n, s in zip(inputs, window.strides, strict=True)]
    rows = zip(inputs, wanted, window.strides, window.dilated, extra, strict=True)
    for n, m, stride, dilated, more in rows:
        whole = (n - 1) * stride + dilated
        total = max(whole + more - m, 0)
        before = total // 2 if window.auto_pad == "SAME_UPPER" else total - total // 2
        pairs.append((before, whole - m - before))
    return tuple(pairs)


def _bias(make: OpBuilder, bias: Operand | None) -> tuple[Operand, ...]:
    """The bias as [1, channels]; empty if it is absent."""
    return () if bias is None else (make.reshape(bias, (1, bias.type.volume)),)
