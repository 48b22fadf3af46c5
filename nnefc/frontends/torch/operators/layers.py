"""Layers: convolutions, products, normalisations, pooling, attention, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.attention import attention, causal_mask
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError, has_no_items
from nnefc.frontends.torch.item_types import filled_tuple
from nnefc.frontends.torch.registry import Integers, Number, operator
from nnefc.ir import DType

# -- convolutions


def convolved(
    make: OpBuilder,
    x: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    groups: int,
) -> Any:
    """x [n, channels, ..] or [channels, ..], weight [outputs, channels / groups, ..]."""
    count = weight.type.rank - 2
    batched = x if x.type.rank == count + 2 else make.reshape(x, (1, *x.type.dims))
    y = make(
        "conv",
        batched,
        weight,
        *(() if bias is None else (make.reshape(bias, (1, bias.type.volume)),)),
        stride=filled_tuple(stride, count),
        padding=tuple((n, n) for n in filled_tuple(padding, count)),
        dilation=filled_tuple(dilation, count),
        groups=groups,
    )
    return y if batched is x else make.reshape(y, y.type.dims[1:])


@operator("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Integers = (1,),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    groups: int = 1,
) -> Any:
    return convolved(make, input, weight, bias, stride, padding, dilation, groups)


@operator("aten.convolution.default")
def convolution(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    transposed: bool,
    output_padding: Integers,
    groups: int,
) -> Any:
    if transposed:
        return conv_transpose(
            make, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return convolved(make, input, weight, bias, stride, padding, dilation, groups)


@operator(
    *("aten.conv_transpose1d.default", "aten.conv_transpose2d.input"),
    "aten.conv_transpose3d.input",
)
def conv_transpose(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Integers = (1,),
    padding: Integers = (0,),
    output_padding: Integers = (0,),
    groups: int = 1,
    dilation: Integers = (1,),
) -> Any:
    """input [n, channels, ..] or [channels, ..], weight [channels, outputs / groups, ..]."""
    count = weight.type.rank - 2
    x = input if input.type.rank == count + 2 else make.reshape(input, (1, *input.type.dims))
    pads, more = filled_tuple(padding, count), filled_tuple(output_padding, count)
    steps, gaps = filled_tuple(stride, count), filled_tuple(dilation, count)
    extents = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, s, p, d, k, o in zip(
            x.type.dims[2:], steps, pads, gaps, weight.type.dims[2:], more, strict=True
        )
    )
    outputs = weight.type.dims[1] * groups
    y = make(
        "deconv",
        x,
        weight,
        *(() if bias is None else (make.reshape(bias, (1, bias.type.volume)),)),
        stride=steps,
        padding=tuple((p, p - o) for p, o in zip(pads, more, strict=True)),
        dilation=gaps,
        groups=groups,
        output_shape=(x.type.dims[0], outputs, *extents),
    )
    return y if x is input else make.reshape(y, y.type.dims[1:])


# -- products


@operator("aten.linear.default")
def linear(make: OpBuilder, input: Operand, weight: Operand, bias: Operand | None = None) -> Any:
    """input [.., depth], weight [units, depth] or [depth], bias [units]."""
    if weight.type.rank == 1:
        y = matmul(make, input, weight)
        return y if bias is None else make("add", y, bias)
    depth, units = weight.type.dims[1], weight.type.dims[0]
    rows = make.reshape(input, (math.prod(input.type.dims[:-1]), depth))
    row = () if bias is None else (make.reshape(bias, (1, units)),)
    return make.reshape(make("linear", rows, weight, *row), (*input.type.dims[:-1], units))


@operator("aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default")
def matmul(
    make: OpBuilder,
    self: Operand,
    other: Number = None,
    mat2: Number = None,
    vec: Number = None,
) -> Any:
    """As in NumPy: vectors are rows or columns, leading dimensions broadcast."""
    y: Operand = next(each for each in (other, mat2, vec) if each is not None)
    x = self
    a = make.reshape(x, (1, *x.type.dims)) if x.type.rank == 1 else x
    b = make.reshape(y, (*y.type.dims, 1)) if y.type.rank == 1 else y
    rank = max(a.type.rank, b.type.rank)
    z = make("matmul", make.aligned_right(a, rank), make.aligned_right(b, rank))
    shape = [*z.type.dims]
    if y.type.rank == 1:
        del shape[-1]
    if x.type.rank == 1:
        del shape[-1 if y.type.rank == 1 else -2]
    return make.reshape(z, tuple(shape))


@operator("aten.addmm.default", "aten.baddbmm.default")
def addmm(
    make: OpBuilder,
    self: Operand,
    mat1: Number = None,
    mat2: Number = None,
    beta: Number = 1,
    alpha: Number = 1,
    batch1: Number = None,
    batch2: Number = None,
) -> Any:
    """beta self + alpha (mat1 mat2)."""
    left, right = (mat1, mat2) if batch1 is None else (batch1, batch2)
    product = make("matmul", left, right)
    if alpha != 1:
        product = make("mul", product, float(alpha))
    added = self if beta == 1 else make("mul", self, float(beta))
    return make("add", make.aligned_right(added, product.type.rank), product)


# -- normalisations


@operator("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand,
    running_var: Operand,
    momentum: float,
    eps: float,
) -> Any:
    """The normalised input, and two tensors without items."""
    del momentum
    wide = accumulation_type(input.type.dtype)
    channels = input.type.dims[1]
    given = (running_mean, running_var, bias, weight)
    defaults = (0.0, 1.0, 0.0, 1.0)
    parameters = [
        make.cast(make.reshape(each, (1, channels)), wide) if each is not None else default
        for each, default in zip(given, defaults, strict=True)
    ]
    y = make("batch_normalization", make.cast(input, wide), *parameters, epsilon=eps)
    return make.cast(y, input.type.dtype), None, None


@operator("aten.batch_norm.default")
def batch_norm(
    make: OpBuilder,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    del cudnn_enabled
    if running_mean is None or running_var is None or training:
        axes = (0, *range(2, input.type.rank))
        return normalized(make, input, axes, weight, bias, eps, channels_at=1)
    found = batch_norm_inference(
        make, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return found[0]


def normalized(
    make: OpBuilder,
    x: Operand,
    axes: Sequence[int],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
    channels_at: int | None = None,
) -> Operand:
    """(x - mean) / sqrt(variance + eps) along axes, times `weight` plus `bias`.

    These have the last dimensions of x, or those of axis `channels_at`.
    """
    wide = accumulation_type(x.type.dtype)
    y: Any = make.cast(x, wide)
    mean, variance = make("moments", y, axes=tuple(axes))
    y = make("mul", make("sub", y, mean), make("rsqrt", make("add", variance, eps)))
    for name, each in (("mul", weight), ("add", bias)):
        if each is not None:
            rest = () if channels_at is None else (1,) * (x.type.rank - channels_at - 1)
            shape = each.type.dims + rest
            y = make(
                name, y, make.aligned_right(make.reshape(make.cast(each, wide), shape), x.type.rank)
            )
    return make.cast(y, x.type.dtype)


@operator("aten.layer_norm.default")
def layer_norm(
    make: OpBuilder,
    input: Operand,
    normalized_shape: Integers,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    del cudnn_enable
    rank = input.type.rank
    axes = range(rank - len(normalized_shape), rank)
    return normalized(make, input, axes, weight, bias, eps)


@operator("aten.group_norm.default")
def group_norm(
    make: OpBuilder,
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    del cudnn_enabled
    batch, channels, *rest = input.type.dims
    grouped = make.reshape(input, (batch, num_groups, channels // num_groups, *rest))
    y: Any = normalized(make, grouped, range(2, grouped.type.rank), None, None, eps)
    y = make.reshape(y, input.type.dims)
    for name, each in (("mul", weight), ("add", bias)):
        if each is not None:
            y = make(name, y, make.reshape(each, (1, channels) + (1,) * len(rest)))
    return y


# -- softmax and attention


@operator("aten.softmax.int", "aten._softmax.default", "aten._safe_softmax.default")
def softmax(
    make: OpBuilder,
    self: Operand,
    dim: int,
    dtype: DType | None = None,
    half_to_float: bool = False,
) -> Any:
    x = self if dtype is None else make.cast(self, dtype)
    if has_no_items(x) or not x.type.rank:
        return x if x.type.rank else make("add", make("mul", x, 0.0), 1.0)
    return make("softmax", x, axes=(normalize_axis(dim, x.type.rank),))


@operator("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """query [.., heads, rows, width]; leading dimensions are joined to one batch."""
    if dropout_p:
        hint = "call module.eval() first"
        raise OperatorError("torch/training", "attention has an active dropout", hint)
    factor = 1 / math.sqrt(query.type.dims[-1]) if scale is None else scale
    rows, keys = query.type.dims[-2], key.type.dims[-2]
    mask = causal_mask(make, rows, keys) if is_causal else attn_mask
    del enable_gqa  # heads of keys that are shared follow from the shapes
    if query.type.rank in (3, 4):
        return attention(make, query, key, value, mask, factor)
    message = f"attention of rank {query.type.rank}"
    raise OperatorError("torch/unsupported", message)


# -- pooling


def _window(
    make: OpBuilder,
    x: Operand,
    kernel: Integers,
    stride: Integers,
    padding: Integers,
    ceil_mode: bool,
    dilation: Integers = (1,),
) -> dict[str, Any]:
    """The attributes of a pooling operation over the last dimensions."""
    count, rank = len(kernel), x.type.rank
    size, gaps = kernel, filled_tuple(dilation, count)
    steps = filled_tuple(stride, count) if stride else kernel
    pads: list[tuple[int, int]] = []
    for n, k, s, p, d in zip(
        x.type.dims[-count:], size, steps, filled_tuple(padding, count), gaps, strict=True
    ):
        over = n + 2 * p - d * (k - 1) - 1
        outputs = over // s + 1
        if ceil_mode and over % s and outputs * s < n + p:
            outputs += 1
        pads.append((p, (outputs - 1) * s + d * (k - 1) + 1 - n - p))
    lead = rank - count
    return {
        "size": (1,) * lead + tuple(size),
        "stride": (1,) * lead + tuple(steps),
        "dilation": (1,) * lead + tuple(gaps),
        "padding": ((0, 0),) * lead + tuple(pads),
    }


@operator("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(
    make: OpBuilder,
    self: Operand,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> Any:
    window = _window(make, self, kernel_size, stride, padding, ceil_mode, dilation)
    return make("max_pool", self, **window, border="ignore")


@operator("aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool1d.default")
def adaptive_avg_pool(make: OpBuilder, self: Operand, output_size: Integers) -> Any:
    """Means of regions of equal extents; of one region they are reductions."""
    count, rank = len(output_size), self.type.rank
    if all(n == 1 for n in output_size):
        axes = tuple(range(rank - count, rank))
        return make("sum_reduce", self, axes=axes, normalize=True)
    extents = self.type.dims[-count:]
    if any(n % m for n, m in zip(extents, output_size, strict=True)):
        message = f"regions of different extents: {list(extents)} to {list(output_size)}"
        raise OperatorError("torch/unsupported", message)
    kernel = tuple(n // m for n, m in zip(extents, output_size, strict=True))
    window = _window(make, self, kernel, kernel, (0,), False)
    return make("avg_pool", self, **window, border="ignore")
