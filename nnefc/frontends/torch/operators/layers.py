"""Layers: convolutions, products, attention, softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.attention import attention, causal_mask
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.einsum import einsum as einstein_sum
from nnefc.frontends.common.values import Operand, OperatorError, has_no_items
from nnefc.frontends.torch.item_types import filled_tuple, result_type
from nnefc.frontends.torch.operators.elementwise import scaled
from nnefc.frontends.torch.registry import Integers, Number, Tensors, operator
from nnefc.ir import DType

# -- convolutions


def _as_float64(
    make: OpBuilder, x: Operand, weight: Operand, bias: Operand | None
) -> tuple[Operand, Operand, Operand | None]:
    """The operands of a convolution of integers, which is computed in float64."""
    wide = DType.FLOAT64
    b = None if bias is None else make.cast(bias, wide)
    return make.cast(x, wide), make.cast(weight, wide), b


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
    if not x.type.dtype.is_float:
        a, w, b = _as_float64(make, x, weight, bias)
        y = convolved(make, a, w, b, stride, padding, dilation, groups)
        return make.cast(y, x.type.dtype)
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
    if not input.type.dtype.is_float:
        a, w, b = _as_float64(make, input, weight, bias)
        y = conv_transpose(make, a, w, b, stride, padding, output_padding, groups, dilation)
        return make.cast(y, input.type.dtype)
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


@operator("aten.einsum.default")
def einsum(make: OpBuilder, equation: str, tensors: Tensors, path: Number = None) -> Any:
    del path  # the order of products, which changes no result
    dtype = result_type(*tensors)
    return einstein_sum(make, equation, [make.cast(each, dtype) for each in tensors])


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
    """beta self + alpha (mat1 mat2); without `self`, also if that is NaN, for a beta of 0."""
    left, right = (mat1, mat2) if batch1 is None else (batch1, batch2)
    return _added(make, self, make("matmul", left, right), beta, alpha)


def _added(make: OpBuilder, x: Operand, product: Operand, beta: Number, alpha: Number) -> Operand:
    """beta x + alpha product."""
    y = scaled(make, product, alpha)
    if beta == 0:
        dims = np.broadcast_shapes(x.type.dims, product.type.dims)
        return make.repeated(make.aligned_right(y, len(dims)), dims)
    added = scaled(make, x, beta)
    return make("add", make.aligned_right(added, product.type.rank), y)


@operator("aten.addmv.default")
def addmv(
    make: OpBuilder,
    self: Operand,
    mat: Operand,
    vec: Operand,
    beta: Number = 1,
    alpha: Number = 1,
) -> Any:
    """beta self + alpha (mat vec)."""
    return _added(make, self, matmul(make, mat, vec), beta, alpha)


@operator("aten.addbmm.default")
def addbmm(
    make: OpBuilder,
    self: Operand,
    batch1: Operand,
    batch2: Operand,
    beta: Number = 1,
    alpha: Number = 1,
) -> Any:
    """beta self + alpha times the sum of the products of a batch."""
    rows, columns = batch1.type.dims[1], batch2.type.dims[2]
    total = make("sum_reduce", make("matmul", batch1, batch2), axes=(0,))
    return _added(make, self, make.reshape(total, (rows, columns)), beta, alpha)


# -- products of groups of rows, as mixtures of experts have them


def _group_of_rows(make: OpBuilder, ends: Operand, rows: int) -> Operand:
    """The group [rows] of each row: the number of groups that end before it."""
    row = make.reshape(make.iota(rows), (rows, 1))
    last = make.reshape(make.cast(ends, row.type.dtype), (1, ends.type.volume))
    return make.reshape(
        make("sum_reduce", make.cast(make("ge", row, last), DType.INT64), axes=(1,)), (rows,)
    )


@operator("transformers.grouped_mm_fallback.default")
def grouped_product(make: OpBuilder, input: Operand, weight: Operand, offs: Operand) -> Any:
    """input [rows, n] times weight [groups, n, m]; group g has the rows offs[g - 1] to offs[g].

    Rows behind the last group are 0.  For few rows their matrices are gathered; otherwise all
    matrices are multiplied with all rows.
    """
    rows, width = input.type.dims
    groups, _, columns = weight.type.dims
    group = _group_of_rows(make, offs, rows)
    if rows <= groups:
        own = make("gather", weight, make("min", group, groups - 1), axis=0)
        y = make.reshape(
            make("matmul", make.reshape(input, (rows, 1, width)), own), (rows, columns)
        )
        known = make.reshape(make("lt", group, groups), (rows, 1))
        return make("select", known, make.reshape(y, (rows, columns)), 0.0)
    every = make("matmul", make.reshape(input, (1, rows, width)), weight)
    number = make.reshape(make.iota(groups), (groups, 1, 1))
    chosen = make("eq", make.reshape(group, (1, rows, 1)), make.cast(number, DType.INT64))
    y = make("sum_reduce", make("select", chosen, every, 0.0), axes=(0,))
    return make.reshape(y, (rows, columns))


@operator("aten._grouped_mm.default")
def grouped_mm(
    make: OpBuilder,
    self: Operand,
    mat2: Operand,
    offs: Operand | None = None,
    out_dtype: DType | None = None,
) -> Any:
    """The product of groups of rows; other groups than these raise OperatorError."""
    if offs is None or self.type.rank != 2 or mat2.type.rank != 3:
        message = f"groups of {self.type} and {mat2.type}"
        raise OperatorError("torch/unsupported", message)
    return grouped_product(make, self, mat2, offs)


# -- softmax and attention


@operator("aten.softmax.int", "aten._softmax.default")
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


@operator(
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
)
def flash_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand,
    value: Operand,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Operand | None = None,
    scale: float | None = None,
) -> Any:
    """The results, and no logarithms of sums, which gradients need."""
    y = scaled_dot_product_attention(
        make, query, key, value, attn_mask, dropout_p, is_causal, scale
    )
    return y, None


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
    shape = query.type.dims
    if len(shape) in (3, 4):
        return attention(make, query, key, value, mask, factor)
    if len(shape) == 2:
        q, k, v = (make.reshape(x, (1, *x.type.dims)) for x in (query, key, value))
        y = attention(make, q, k, v, mask, factor)
        return make.reshape(y, y.type.dims[1:])
    if mask is not None and mask.type.rank > 2:
        message = f"attention of rank {len(shape)} with a mask of rank {mask.type.rank}"
        raise OperatorError("torch/unsupported", message)
    q, k, v = (
        make.reshape(x, (math.prod(x.type.dims[:-3]), *x.type.dims[-3:]))
        for x in (query, key, value)
    )
    y = attention(make, q, k, v, mask, factor)
    return make.reshape(y, (*shape[:-1], y.type.dims[-1]))
