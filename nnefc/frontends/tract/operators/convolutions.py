"""Convolution, box filters and resampling."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    QuantizedTensor,
    operand,
)
from nnefc.frontends.tract.operators.movement import BORDERS
from nnefc.frontends.tract.operators.products import in_unblocked_type
from nnefc.frontends.tract.products_of_codes import (
    Factor,
    bias_codes,
    factor,
    requantize,
    sums_of,
    with_bias,
)
from nnefc.frontends.tract.quantization import as_real, with_product_scale
from nnefc.frontends.tract.registry import NO_TYPE, Pairs, TypeName, operator


def _bias(make: OpBuilder, bias: Any, channels: int) -> Operand:
    """A bias of any shape as [1, channels], or as a scalar; raises OperatorError."""
    x = bias_codes(bias)
    if x.type.volume == 1:
        return make.reshape(x, ())
    if x.type.volume != channels:
        message = f"a bias of shape {list(x.type.dims)} for {channels} channels"
        raise OperatorError("argument/conv", message)
    return make.reshape(x, (1, channels))


@operator("tract_nnef", quantized=True)
def conv(
    make: OpBuilder,
    input: Any,
    filter: Any,
    bias: Any = 0.0,
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    groups: int = 1,
) -> Any:
    """The bias of quantized tensors is added to the sums of products of their codes."""
    if border != "constant":
        raise OperatorError("argument/conv", f"border = '{border}'; only 'constant' is supported")
    if not isinstance(input, QuantizedTensor):
        kernel = as_real(make, filter)
        return convolve(make, operand(input), kernel, bias, padding, stride, dilation, groups)
    kernel = (
        filter if isinstance(filter, QuantizedTensor) else QuantizedTensor(operand(filter), 1.0, 0)
    )
    factors = factor(make, input, 0), factor(make, kernel, 0)
    sums = _sums(make, *factors, bias, padding, stride, dilation, groups)
    return with_product_scale(make, sums, input, kernel, 1)


def _sums(
    make: OpBuilder,
    x: Factor,
    kernel: Factor,
    bias: Any,
    padding: Pairs,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Operand:
    """A convolution of codes plus a bias in units of the product; raises OperatorError."""
    window: dict[str, Any] = {"padding": padding, "stride": stride, "dilation": dilation}
    of_rank_at_least("conv", "input", x.items, 2)
    channels = of_rank_at_least("conv", "filter", kernel.items, 2)[0]
    groups = groups or x.items.type.dims[1]

    def of_codes(*codes: Operand) -> Operand:
        return make("integer_conv", *codes, groups=groups, **window)

    def of_reals(a: Operand, b: Operand) -> Operand:
        return convolve(make, a, b, 0.0, groups=groups, **window)

    sums = sums_of(make, x, kernel, of_codes, of_reals)
    return with_bias(make, sums, _bias(make, bias, channels))


def convolve(
    make: OpBuilder,
    x: Operand,
    kernel: Operand,
    bias: Any,
    padding: Pairs,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Operand:
    """A convolution; `groups` = 0 is one group per channel.  Raises OperatorError."""
    of_rank_at_least("conv", "input", x, 2)
    of_rank_at_least("conv", "filter", kernel, 2)
    groups = groups or x.type.dims[1]
    a, b = make.unified(x, kernel)
    term = make.cast(_bias(make, bias, kernel.type.dims[0]), a.type.dtype)
    y = make(
        "conv",
        a,
        b,
        term,
        border="constant",
        padding=padding,
        stride=stride,
        dilation=dilation,
        groups=groups,
    )
    return in_unblocked_type(make, y, x, kernel)


@operator("tract_nnef")
def deconv(
    make: OpBuilder,
    input: Operand,
    filter: Operand,
    bias: Any = 0.0,
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    groups: int = 1,
) -> Any:
    """`output_shape` has the spatial extents only; `filter` is [outputs, inputs / groups, ...], as
    in a convolution.
    """
    if border != "constant":
        raise OperatorError("argument/deconv", f"border = '{border}'; only 'constant' is supported")
    of_rank_at_least("deconv", "input", input, 2)
    of_rank_at_least("deconv", "filter", filter, 2)
    groups = groups or input.type.dims[1]
    if groups < 1:
        raise OperatorError("argument/deconv", f"groups = {groups}; it must be at least 0")
    channels, inputs, *extents = filter.type.dims
    if channels % groups:
        raise OperatorError(
            "argument/deconv", f"{channels} channels cannot be divided by {groups} groups"
        )
    each = channels // groups
    # to NNEF's layout [inputs, outputs / groups, ...]
    filter = make.reshape(filter, (groups, each, inputs, *extents))
    filter = make.transpose(filter, (0, 2, 1, *range(3, 3 + len(extents))))
    filter = make.reshape(filter, (groups * inputs, each, *extents))
    input, filter = make.unified(input, filter)
    shape = output_shape
    if shape and len(shape) == input.type.rank - 2:
        shape = (input.type.dims[0], channels, *shape)
    return make(
        "deconv",
        input,
        filter,
        make.cast(_bias(make, bias, channels), input.type.dtype),
        border="constant",
        padding=padding,
        stride=stride,
        dilation=dilation,
        output_shape=shape,
        groups=groups,
    )


@operator("tract_nnef")
def box(
    make: OpBuilder,
    input: Operand,
    size: tuple[int, ...],
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    normalize: bool = False,
) -> Any:
    return make(
        "box",
        input,
        size=size,
        border=border,
        padding=padding,
        stride=stride,
        dilation=dilation,
        normalize=normalize,
    )


@operator("tract_nnef")
def debox(
    make: OpBuilder,
    input: Operand,
    size: tuple[int, ...],
    border: str = "constant",
    padding: Pairs = (),
    stride: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    normalize: bool = False,
) -> Any:
    return make(
        "debox",
        input,
        size=size,
        border=border,
        padding=padding,
        stride=stride,
        dilation=dilation,
        output_shape=output_shape,
        normalize=normalize,
    )


@operator("tract_core")
def nearest_upsample(make: OpBuilder, input: Operand, factor: tuple[int, ...]) -> Any:
    return make("nearest_upsample", input, factor=factor)


@operator("tract_core")
def multilinear_upsample(
    make: OpBuilder,
    input: Operand,
    factor: tuple[int, ...],
    method: str = "symmetric",
    border: str = "replicate",
) -> Any:
    border = BORDERS.get(border, border)
    return make("multilinear_upsample", input, factor=factor, method=method, border=border)


@operator("tract_nnef")
def nearest_downsample(make: OpBuilder, input: Operand, factor: tuple[int, ...]) -> Any:
    return make("nearest_downsample", input, factor=factor)


@operator("tract_nnef")
def area_downsample(make: OpBuilder, input: Operand, factor: tuple[int, ...]) -> Any:
    return make("area_downsample", input, factor=factor)


@operator("tract_core")
def tract_core_resize(
    make: OpBuilder,
    input: Operand,
    scales: Any = False,
    sizes: Any = False,
    coord_transformer: str = "half_pixel",
    interpolator: str = "nearest",
    nearest_mode: str = "floor",
) -> Any:
    return _resized(make, input, scales, sizes, coord_transformer, interpolator, nearest_mode)


@operator("tract_onnx")
def tract_onnx_resize(
    make: OpBuilder,
    input: Operand,
    scales: Any = False,
    roi: Any = False,
    coord_transformer: str = "half_pixel",
    interpolator: str = "nearest",
    nearest_mode: str = "floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    extrapolation_value: float = 0.0,
) -> Any:
    del extrapolation_value
    if antialias:
        raise OperatorError("operator/unsupported", "antialias = true is not supported")
    if _numbers(roi):
        raise OperatorError("operator/unsupported", "a region of interest is not supported")
    return _resized(
        make,
        input,
        scales,
        False,
        coord_transformer,
        interpolator,
        nearest_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
    )


def _numbers(value: Any) -> list[float]:
    """The items of an optional known tensor; empty if it is absent.  Raises OperatorError."""
    if value is False or value is None:
        return []
    x = operand(value)
    if not isinstance(x, KnownTensor):
        raise OperatorError(
            "operator/attribute", "scales and sizes must be known before the model runs"
        )
    items = [float(v) for v in x.array.reshape(-1)] if x.type.rank else []
    if not all(map(math.isfinite, items)):
        raise OperatorError("argument/resize", f"scales and sizes must be finite, not {items}")
    return items


def _resized(
    make: OpBuilder,
    x: Operand,
    scales: Any,
    sizes: Any,
    coordinates: str,
    interpolator: str,
    nearest_mode: str,
    **more: Any,
) -> Any:
    """The resized tensor, by scales or sizes of all dimensions; raises OperatorError."""
    factors, extents = _numbers(scales), _numbers(sizes)
    dims = x.type.dims
    if len(factors or extents) != len(dims):
        message = f"{len(factors or extents)} scales or sizes for a tensor of rank {len(dims)}"
        raise OperatorError("argument/resize", message)
    if not factors:
        wanted = tuple(int(e) for e in extents)
    elif not all(0 < f < math.inf for f in factors):
        raise OperatorError("argument/resize", f"scales = {factors}; each must be greater than 0")
    else:
        wanted = tuple(math.floor(n * f) for n, f in zip(dims, factors, strict=True))
    return make(
        "resize",
        x,
        sizes=wanted,
        scales=tuple(factors),
        coord_transformer=coordinates,
        interpolator=interpolator,
        nearest_mode=nearest_mode,
        **more,
    )


@operator("tract_core", "tract_onnx_grid_sample")
def tract_core_grid_sample(
    make: OpBuilder,
    input: Operand,
    grid: Operand,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:
    return make(
        "grid_sample",
        input,
        grid,
        mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode),
        padding_mode=padding_mode,
        align_corners=align_corners,
    )


@operator("tract_core", quantized=True)
def tract_core_qconv(
    make: OpBuilder,
    input: Any,
    filter: Any,
    bias: Any = 0,
    group: int = 1,
    dilation: tuple[int, ...] = (),
    stride: tuple[int, ...] = (),
    padding: Pairs = (),
    border: str = "constant",
    a0: Any = 0,
    a_scale: Any = 1.0,
    b0: Any = 0,
    b_scale: Any = 1.0,
    c0: Any = 0,
    c_scale: Any = 1.0,
    output_dt: TypeName = NO_TYPE,
) -> Any:
    """A convolution of codes: a0, a_scale for the input, b0, b_scale for the filter, c0, c_scale
    for the result.
    """
    del border
    factors = factor(make, input, a0), factor(make, filter, b0)
    sums = _sums(make, *factors, bias, padding, stride, dilation, group)
    return requantize(make, sums, a_scale, b_scale, c_scale, c0, output_dt)
