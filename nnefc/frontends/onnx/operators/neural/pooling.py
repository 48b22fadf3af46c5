"""Pooling in windows, pooling of all spatial dimensions, and the reverse of max pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least, of_shape, take_room
from nnefc.frontends.common.operators.pooling import indices_of_taps
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.operators.neural.channels_last import with_channels_first
from nnefc.frontends.onnx.operators.neural.window_attributes import (
    DilatedPoolingAttributes,
    FirstPoolingAttributes,
    Pairs,
    PoolingAttributes,
    WindowAttributes,
)
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator
from nnefc.ir import DType
from nnefc.ops.core.window_arithmetic import resolve


def _padding(x: Operand, window: WindowAttributes, *, ceil: bool) -> tuple[Pairs, Pairs]:
    """The padding, and that with the items behind it that windows cover in `ceil_mode`."""
    extents = x.type.dims[2:]
    padding = window.padding(extents)
    if not ceil or window.is_same:
        return padding, padding
    beyond = window.beyond(extents, padding)
    return padding, tuple((p, q + n) for (p, q), n in zip(padding, beyond, strict=True))


def _pooled(
    make: OpBuilder, name: str, x: Operand, window: WindowAttributes, padding: Pairs, border: str
) -> Any:
    """The operation `name` in a window over the spatial dimensions."""
    return make(
        name,
        x,
        size=(1, 1, *window.kernel),
        border=border,
        padding=((0, 0), (0, 0), *padding),
        stride=(1, 1, *window.strides),
        dilation=(1, 1, *window.dilations),
    )


# -- maximum


@operator("MaxPool", until=7)
def max_pool_1(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: PoolingAttributes,
) -> Any:
    window = attributes.window("max_pool", X)
    return _max_pool(make, X, window)


@operator("MaxPool", since=8, until=9)
def max_pool_8(
    make: OpBuilder,
    X: Operand,
    *,
    node: Node,
    attributes: PoolingAttributes,
    storage_order: int = 0,
) -> Any:
    window = attributes.window("max_pool", X)
    return _max_pool(make, X, window, indices=node.is_wanted(1), by_columns=bool(storage_order))


@operator("MaxPool", since=10)
def max_pool(
    make: OpBuilder,
    X: Operand,
    *,
    node: Node,
    attributes: DilatedPoolingAttributes,
    storage_order: int = 0,
) -> Any:
    """Indices number the items of X; by columns if `storage_order` is 1, in each channel."""
    window = attributes.window("max_pool", X)
    settings = {"indices": node.is_wanted(1), "by_columns": bool(storage_order)}
    return _max_pool(make, X, window, attributes.ceil_mode, **settings)


@operator("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(make: OpBuilder, x: Operand, *, attributes: DilatedPoolingAttributes) -> Any:
    """`MaxPool` of x [n, .., c]."""

    def compute(first: Operand) -> Operand:
        window = attributes.window("max_pool", first)
        return operand(_max_pool(make, first, window, attributes.ceil_mode))

    return with_channels_first(make, compute)(x)


def _max_pool(
    make: OpBuilder,
    x: Operand,
    window: WindowAttributes,
    ceil: bool = False,
    *,
    indices: bool = False,
    by_columns: bool = False,
) -> Any:
    """The maxima, and with `indices` where they are; integers are compared as real numbers."""
    dtype = x.type.dtype
    real = x if dtype.is_float else make.cast(x, DType.FLOAT32)
    _, padding = _padding(x, window, ceil=ceil)
    if not indices:
        return make.cast(_pooled(make, "max_pool", real, window, padding, "ignore"), dtype)
    y, taps = _pooled(make, "max_pool_with_index", real, window, padding, "ignore")
    batch, channels, *spatial = x.type.dims
    resolved = resolve(
        x.type.dims,
        (1, 1, *window.kernel),
        ((0, 0), (0, 0), *padding),
        (1, 1, *window.strides),
        (1, 1, *window.dilations),
    )
    before = [math.prod(spatial[:i]) for i in range(len(spatial))]
    behind = [math.prod(spatial[i + 1 :]) for i in range(len(spatial))]
    pitches = dict(enumerate(before if by_columns else behind, 2))
    index = indices_of_taps(make, taps, resolved, pitches)
    planes = make.iota(batch * channels, 0, math.prod(spatial))
    planes = make.reshape(planes, (batch, channels, *[1] * len(spatial)))
    return make.cast(y, dtype), make("add", index, planes)


@operator("GlobalMaxPool")
def global_max_pool(make: OpBuilder, X: Operand) -> Any:
    return make("max_reduce", X, axes=_spatial_axes("max_pool", X))


@operator("MaxUnpool", since=9)
def max_unpool(
    make: OpBuilder,
    X: Operand,
    indices: Operand,
    output_shape: Integers = (),
    *,
    kernel_shape: Integers,
    pads: Integers = (),
    strides: Integers = (),
) -> Any:
    """The items of X at indices of the tensor that was pooled, zeros elsewhere.

    `output_shape` may extend that tensor behind its last items.
    """
    window = PoolingAttributes(kernel_shape=kernel_shape, pads=pads, strides=strides).window(
        "max_unpool", X
    )
    of_shape("max_unpool", "indices", indices, X.type.dims)
    rows = zip(X.type.dims[2:], window.strides, window.explicit, window.kernel, strict=True)
    extents = [(n - 1) * stride - p - q + size for n, stride, (p, q), size in rows]
    shape = (*X.type.dims[:2], *extents)
    take_room(make.budget, *shape)
    zero = KnownTensor(np.zeros(1, X.type.dtype.numpy), X.type.dtype)
    items = make.repeated(zero, (math.prod(shape),))
    flat = (X.type.volume,)
    places = make.cast(make.reshape(indices, flat), DType.INT64)
    items = make("scatter_elements", items, places, make.reshape(X, flat), axis=0)
    y = make.reshape(items, shape)
    if not output_shape or output_shape == shape:
        return y
    if len(output_shape) != len(shape) or any(m < n for m, n in zip(output_shape, shape)):
        message = f"output_shape = {list(output_shape)} for a tensor of shape {list(shape)}"
        raise OperatorError("argument/max_unpool", message)
    padding = tuple((0, m - n) for m, n in zip(output_shape, shape))
    return make("pad", y, padding=padding)


# -- average


@operator("AveragePool", until=6)
def average_pool_1(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: PoolingAttributes,
) -> Any:
    window = attributes.window("avg_pool", X)
    return _average_pool(make, X, window)


@operator("AveragePool", since=7, until=9)
def average_pool_7(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: PoolingAttributes,
    count_include_pad: bool = False,
) -> Any:
    window = attributes.window("avg_pool", X)
    return _average_pool(make, X, window, count_include_pad)


@operator("AveragePool", since=10, until=18)
def average_pool_10(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: PoolingAttributes,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Any:
    window = attributes.window("avg_pool", X)
    return _average_pool(make, X, window, count_include_pad, ceil_mode)


@operator("AveragePool", since=19)
def average_pool(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: DilatedPoolingAttributes,
    count_include_pad: bool = False,
) -> Any:
    window = attributes.window("avg_pool", X)
    return _average_pool(make, X, window, count_include_pad, attributes.ceil_mode)


def _average_pool(
    make: OpBuilder,
    x: Operand,
    window: WindowAttributes,
    counts_padding: bool = False,
    ceil: bool = False,
) -> Any:
    """Averages; items that windows cover in `ceil_mode` behind the padding never count."""
    padding, whole = _padding(x, window, ceil=ceil)
    if not counts_padding:
        return _pooled(make, "avg_pool", x, window, whole, "ignore")
    if padding == whole:
        return _pooled(make, "avg_pool", x, window, padding, "constant")
    padded = make("pad", x, padding=((0, 0), (0, 0), *padding))
    beyond = tuple((0, more - q) for (_, q), (_, more) in zip(padding, whole, strict=True))
    return _pooled(make, "avg_pool", padded, window, beyond, "ignore")


@operator("GlobalAveragePool")
def global_average_pool(make: OpBuilder, X: Operand) -> Any:
    return make("mean_reduce", X, axes=_spatial_axes("avg_pool", X))


# -- norms


@operator("LpPool", until=1)
def lp_pool_1(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: FirstPoolingAttributes,
    p: float = 2.0,
) -> Any:
    return _lp_pool(make, X, attributes.window("lp_pool", X), p)


@operator("LpPool", since=2, until=17)
def lp_pool_2(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: PoolingAttributes,
    p: int = 2,
) -> Any:
    window = attributes.window("lp_pool", X)
    return _lp_pool(make, X, window, p)


@operator("LpPool", since=18)
def lp_pool(
    make: OpBuilder,
    X: Operand,
    *,
    attributes: DilatedPoolingAttributes,
    p: int = 2,
) -> Any:
    window = attributes.window("lp_pool", X)
    return _lp_pool(make, X, window, p, attributes.ceil_mode)


def _lp_pool(
    make: OpBuilder, x: Operand, window: WindowAttributes, p: float, ceil: bool = False
) -> Any:
    """(sum |x|^p)^(1/p) in each window."""
    _, padding = _padding(x, window, ceil=ceil)
    sums = _pooled(make, "box", _powers(make, x, p), window, padding, "constant")
    return make.cast(_root(make, sums, p), x.type.dtype)


@operator("GlobalLpPool", until=1)
def global_lp_pool_1(make: OpBuilder, X: Operand, *, p: float = 2.0) -> Any:
    return _global_lp_pool(make, X, p)


@operator("GlobalLpPool", since=2)
def global_lp_pool(make: OpBuilder, X: Operand, *, p: int = 2) -> Any:
    return _global_lp_pool(make, X, p)


def _global_lp_pool(make: OpBuilder, x: Operand, p: float) -> Any:
    sums = make("sum_reduce", _powers(make, x, p), axes=_spatial_axes("lp_pool", x))
    return make.cast(_root(make, sums, p), x.type.dtype)


def _powers(make: OpBuilder, x: Operand, p: float) -> Operand:
    """|x|^p in a type in which sums are exact enough; raises OperatorError unless p > 0."""
    if not 0 < p < math.inf:
        raise OperatorError("argument/lp_pool", f"p = {p}; it must be greater than 0")
    wide = make.cast(x, accumulation_type(x.type.dtype))
    if p == 2:
        return make("sqr", wide)
    size = make("abs", wide)
    return size if p == 1 else make("pow", size, float(p))


def _root(make: OpBuilder, sums: Operand, p: float) -> Operand:
    if p == 2:
        return make("sqrt", sums)
    return sums if p == 1 else make("pow", sums, 1.0 / p)


def _spatial_axes(what: str, x: Operand) -> Integers:
    """All axes behind batch and channels; raises OperatorError."""
    return tuple(range(2, len(of_rank_at_least(what, "X", x, 3))))
