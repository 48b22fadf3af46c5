"""Attention as onnxruntime fuses it: `Attention`, `QAttention` and `MultiHeadAttention`."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.attention import attend, causal_mask
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.heads import (
    appended,
    default_scale,
    filled_mask,
    join_heads,
    keys_before,
    split_heads,
)
from nnefc.frontends.onnx.operators.neural.products import product
from nnefc.frontends.onnx.registry import MICROSOFT, Integers, operator
from nnefc.ir import DType

HIDDEN_SCORE = -10000.0
"""What masks add to the scores of hidden keys by default."""


@operator("Attention", domain=MICROSOFT)
def attention(
    make: OpBuilder,
    input: Operand,
    weights: Operand,
    bias: Operand | None = None,
    mask_index: Operand | None = None,
    past: Operand | None = None,
    attention_bias: Operand | None = None,
    past_sequence_length: Operand | None = None,
    *,
    do_rotary: bool = False,
    mask_filter_value: float = HIDDEN_SCORE,
    num_heads: int,
    past_present_share_buffer: bool = False,
    qkv_hidden_sizes: Integers = (),
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: bool = False,
) -> Any:
    """Attention of an input [b, s, i] to itself, and its keys and values [2, b, h, t, w].

    weights [i, q + k + v], past [2, b, h, p, w]; t = p + s.
    """
    del rotary_embedding_dim, past_sequence_length
    if do_rotary or past_present_share_buffer:
        message = "rotary embedding and shared buffers of this operator are not supported"
        raise OperatorError("onnx/unsupported", message)
    of_rank("attention", "input", input, 3)
    of_rank("attention", "weights", weights, 2)
    whole = product(make, input, weights)
    if bias is not None:
        whole = make("add", whole, make.aligned_right(bias, 3))
    width = whole.type.dims[2]
    sizes = qkv_hidden_sizes or (width // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != width:
        message = f"weights of {width} columns for sizes {list(sizes)} of q, k and v"
        raise OperatorError("argument/attention", message)
    begins = (0, sizes[0], sizes[0] + sizes[1])
    pieces = [slice_in_dim(make, whole, 2, b, b + n) for b, n in zip(begins, sizes, strict=True)]
    q, k, v = (split_heads(make, piece, num_heads) for piece in pieces)
    before = 0
    if past is not None:
        dims = of_rank("attention", "past", past, 5)
        before = dims[3]
        old = (slice_in_dim(make, past, 0, i, i + 1) for i in range(2))
        k, v = (
            appended(make, make.reshape(x, dims[1:]), new)
            for x, new in zip(old, (k, v), strict=True)
        )
    masks = _masks(make, mask_index, attention_bias, q, k, mask_filter_value)
    if unidirectional:
        masks.append(causal_mask(make, q.type.dims[2], k.type.dims[2], before))
    y = _attended(make, q, k, v, default_scale(q.type.dims[3], scale), masks)
    if k.type.dims != v.type.dims:
        return y, None
    shape = (1, *k.type.dims)
    present = make("concat", [make.reshape(x, shape) for x in (k, v)], axis=0)
    return y, present


@operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    bias: Operand,
    input_scale: Operand,
    weight_scale: Operand,
    mask_index: Operand | None = None,
    input_zero_point: Operand | None = None,
    weight_zero_point: Operand | None = None,
    past: Operand | None = None,
    *,
    do_rotary: bool = False,
    mask_filter_value: float = HIDDEN_SCORE,
    num_heads: int,
    past_present_share_buffer: bool = False,
    scale: float | None = None,
    unidirectional: bool = False,
) -> Any:
    """`Attention` of quantized inputs and weights; scales of weights may be those of columns."""
    x = _dequantized(make, input, input_scale, input_zero_point)
    w = _dequantized(make, weight, weight_scale, weight_zero_point)
    return attention(
        make,
        x,
        w,
        bias,
        mask_index,
        past,
        do_rotary=do_rotary,
        mask_filter_value=mask_filter_value,
        num_heads=num_heads,
        past_present_share_buffer=past_present_share_buffer,
        scale=scale,
        unidirectional=unidirectional,
    )


def _dequantized(make: OpBuilder, x: Operand, scale: Operand, zero: Operand | None) -> Operand:
    """(x - zero) scale; both are single numbers or rows."""
    real = make.cast(x, scale.type.dtype)
    if zero is not None:
        real = make("sub", real, _row(make, make.cast(zero, scale.type.dtype), x.type.rank))
    return make("mul", real, _row(make, scale, x.type.rank))


def _row(make: OpBuilder, x: Operand, rank: int) -> Operand:
    return make.reshape(x, (1,) * (rank - 1) + (x.type.volume,))


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand | None = None,
    value: Operand | None = None,
    bias: Operand | None = None,
    key_padding_mask: Operand | None = None,
    attention_bias: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    past_sequence_length: Operand | None = None,
    cache_indirection: Operand | None = None,
    *,
    mask_filter_value: float = HIDDEN_SCORE,
    num_heads: int,
    scale: float | None = None,
    unidirectional: bool = False,
) -> Any:
    """Attention of queries [b, s, h w] to keys and values, and all keys and values [b, h, t, w].

    Keys and values are [b, n, h w] or [b, h, n, w]; or packed, [b, n, h, 2, w], or with the
    queries, [b, s, h, 3, w].
    """
    if past_sequence_length is not None or cache_indirection is not None:
        raise OperatorError("onnx/unsupported", "buffers of several beams are not supported")
    parts = _unpacked(make, query, key, value)
    if bias is not None:
        parts = _with_bias(make, parts, bias)
    q, k, v = (split_heads(make, x, num_heads) if x.type.rank == 3 else x for x in parts)
    before = 0 if past_key is None else of_rank("attention", "past_key", past_key, 4)[2]
    k, v = appended(make, past_key, k), appended(make, past_value, v)
    masks = _masks(make, key_padding_mask, attention_bias, q, k, mask_filter_value)
    if unidirectional:
        masks.append(causal_mask(make, q.type.dims[2], k.type.dims[2], before))
    return _attended(make, q, k, v, default_scale(q.type.dims[3], scale), masks), k, v


def _unpacked(
    make: OpBuilder, query: Operand, key: Operand | None, value: Operand | None
) -> list[Operand]:
    """Queries, keys and values as [b, n, h w], or [b, h, n, w]; raises OperatorError."""
    if key is None:
        of_rank("attention", "query without keys", query, 5)
        return [_packed_part(make, query, i) for i in range(3)]
    if value is None:
        of_rank("attention", "query", query, 3)
        of_rank("attention", "key without values", key, 5)
        return [query, _packed_part(make, key, 0), _packed_part(make, key, 1)]
    of_rank("attention", "query", query, 3)
    of_rank("attention", "key", key, 3, 4)
    of_rank("attention", "value", value, 3, 4)
    return [query, key, value]


def _packed_part(make: OpBuilder, x: Operand, index: int) -> Operand:
    """Part `index` of a tensor [b, n, h, parts, w] as [b, n, h w]."""
    batch, items, heads, _, width = x.type.dims
    part = slice_in_dim(make, x, 3, index, index + 1)
    return make.reshape(part, (batch, items, heads * width))


def _with_bias(make: OpBuilder, parts: list[Operand], bias: Operand) -> list[Operand]:
    """Tensors [b, n, width] with their slices of one bias added; others have [b, h, n, w]."""
    begin, summed = 0, list[Operand]()
    for part in parts:
        is_split = part.type.rank == 4
        width = part.type.dims[1] * part.type.dims[3] if is_split else part.type.dims[2]
        term = slice_in_dim(make, bias, 0, begin, begin + width)
        begin += width
        summed.append(part if is_split else make("add", part, make.aligned_right(term, 3)))
    return summed


def _masks(
    make: OpBuilder,
    mask: Operand | None,
    bias: Operand | None,
    q: Operand,
    k: Operand,
    hidden: float,
) -> list[Operand]:
    """What is added to the scores: the mask of keys, and the bias; raises OperatorError."""
    masks: list[Operand] = []
    if mask is not None:
        keep = _visible(make, mask, q.type.dims[0], q.type.dims[2], k.type.dims[2])
        masks.append(filled_mask(make, keep, hidden, accumulation_type(q.type.dtype)))
    if bias is not None:
        masks.append(bias)
    return masks


def _visible(make: OpBuilder, mask: Operand, batch: int, rows: int, keys: int) -> Operand:
    """Whether keys are visible, as booleans that broadcast to [batch, heads, rows, keys].

    A mask has numbers for keys [b, t] or [b, s, t], the numbers of keys [b], or behind them the
    first keys [2 b].
    """
    dims = mask.type.dims
    if len(dims) == 1 and dims[0] == batch:
        return keys_before(make, mask, keys)
    if len(dims) == 1 and dims[0] == 2 * batch:
        end = keys_before(make, slice_in_dim(make, mask, 0, 0, batch), keys)
        begin = keys_before(make, slice_in_dim(make, mask, 0, batch, 2 * batch), keys)
        return make("and", end, make("not", begin))
    if len(dims) == 1 and dims[0] == 3 * batch + 2:
        return keys_before(make, slice_in_dim(make, mask, 0, 0, batch), keys)
    shown = make("ne", mask, 0) if mask.type.dtype is not DType.BOOL else mask
    if dims == (batch, keys):
        return make.reshape(shown, (batch, 1, 1, keys))
    of_shape("attention", "a mask", mask, (batch, rows, keys))
    return make.reshape(shown, (batch, 1, rows, keys))


def _attended(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, factor: float, masks: list[Operand]
) -> Operand:
    """Attention as [b, s, h w], computed in float32 at least."""
    wide = accumulation_type(q.type.dtype)
    queries, keys, values = (make.cast(x, wide) for x in (q, k, v))
    y = attend(make, queries, keys, values, factor, masks).output
    return join_heads(make, make.cast(y, q.type.dtype))
