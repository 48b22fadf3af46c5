"""The operator `Attention` of the standard."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.attention import Attended, attend, causal_mask
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.operators.neural.heads import (
    appended,
    join_heads,
    keys_before,
    padded_mask,
    split_heads,
)
from nnefc.frontends.onnx.registry import operator
from nnefc.ir import DType


@operator("Attention", since=23, until=23)
def standard_attention_23(
    make: OpBuilder,
    Q: Operand,
    K: Operand,
    V: Operand,
    attn_mask: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    *,
    node: Node,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> Any:
    return standard_attention(
        make,
        Q,
        K,
        V,
        attn_mask,
        past_key,
        past_value,
        node=node,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
    )


@operator("Attention", since=24)
def standard_attention(
    make: OpBuilder,
    Q: Operand,
    K: Operand,
    V: Operand,
    attn_mask: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    nonpad_kv_seqlen: Operand | None = None,
    *,
    node: Node,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> Any:
    """Attention of queries [b, h, s, w] to keys and values [b, g, t, w], or all [b, s, h w].

    The results are that of the same rank as Q, all keys, all values, and scores.
    """
    del softmax_precision  # computed in float32 at least
    rank = len(of_rank("attention", "Q", Q, 3, 4))
    is_flat = rank == 3
    for name, x in (("K", K), ("V", V)):
        of_rank("attention", name, x, rank)
    counts = (q_num_heads, kv_num_heads, kv_num_heads)
    q, k, v = (
        split_heads(make, x, n) if is_flat else x for x, n in zip((Q, K, V), counts, strict=True)
    )
    before = 0 if past_key is None else of_rank("attention", "past_key", past_key, 4)[2]
    k, v = appended(make, past_key, k), appended(make, past_value, v)
    rows, keys = q.type.dims[2], k.type.dims[2]
    masks = [] if attn_mask is None else [padded_mask(make, attn_mask, keys)]
    if nonpad_kv_seqlen is not None:
        masks.append(keys_before(make, nonpad_kv_seqlen, keys))
    starts = None if before or past_key is not None else nonpad_kv_seqlen
    masks += _windows(make, starts, before, rows, keys, (left_window_size, right_window_size))
    if is_causal and starts is None:
        masks.append(causal_mask(make, rows, keys, before))
    elif is_causal:
        masks += _windows(make, starts, before, rows, keys, (-1, 0))
    a, b, c = (make.cast(x, accumulation_type(Q.type.dtype)) for x in (q, k, v))
    factor = 1.0 / math.sqrt(q.type.dims[3] or 1) if scale is None else scale
    attended = attend(make, a, b, c, factor, masks, softcap=softcap)
    y = make.cast(attended.output, Q.type.dtype)
    y = join_heads(make, y) if is_flat else y
    if not node.is_wanted(3):
        return y, k, v
    scores = _scores(attended, qk_matmul_output_mode)
    scores = make.reshape(scores, (*q.type.dims[:2], rows, keys))
    return y, k, v, make.cast(scores, Q.type.dtype)


def _scores(attended: Attended, mode: int) -> Operand:
    """The scores that an attribute selects; raises OperatorError."""
    choices = attended.products, attended.capped, attended.scores, attended.weights
    if not 0 <= mode < len(choices):
        raise OperatorError("argument/attention", f"qk_matmul_output_mode = {mode}")
    return choices[mode]


def _windows(
    make: OpBuilder,
    counts: Operand | None,
    before: int,
    rows: int,
    keys: int,
    sizes: tuple[int, int],
) -> list[Operand]:
    """Masks of the keys that are at most `sizes` items before and behind each query; -1: any.

    Query i is at key `before` + i; or the last one at the last of `counts` [batch] keys.
    """
    left, right = sizes
    if left < -1 or right < -1:
        raise OperatorError("argument/attention", f"window sizes {left} and {right}")
    if left < 0 and right < 0:
        return []
    place = make.reshape(make.iota(rows, before), (1, 1, rows, 1))
    if counts is not None:
        begins = make("sub", make.cast(counts, DType.INT64), rows)
        place = make("add", place, make.reshape(begins, (counts.type.volume, 1, 1, 1)))
    key = make.reshape(make.iota(keys), (1, 1, 1, keys))
    masks: list[Operand] = []
    if left >= 0:
        masks.append(make("ge", key, make("sub", place, left)))
    if right >= 0:
        masks.append(make("le", key, make("add", place, right)))
    return masks
