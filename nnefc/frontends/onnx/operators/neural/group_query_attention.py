"""Grouped-query attention with a cache of keys and values, as the GenAI builder writes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.attention import Attended, attend
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.operators.neural.cache_codes import CacheCodes, cache_codes
from nnefc.frontends.onnx.operators.neural.cached_keys import (
    KeyCache,
    PositionedCache,
    WindowCache,
    positioned_cache,
    window_cache,
)
from nnefc.frontends.onnx.operators.neural.heads import (
    default_scale,
    join_heads,
    rotated,
    split_heads,
)
from nnefc.frontends.onnx.operators.neural.normalization_steps import normalized, scaled
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand | None,
    value: Operand | None,
    past_key: Any | None,
    past_value: Any | None,
    seqlens_k: Operand,
    total_sequence_length: Operand,
    cos_cache: Operand | None = None,
    sin_cache: Operand | None = None,
    position_ids: Operand | None = None,
    attention_bias: Operand | None = None,
    head_sink: Operand | None = None,
    k_scale: Operand | None = None,
    v_scale: Operand | None = None,
    q_norm_weight: Operand | None = None,
    k_norm_weight: Operand | None = None,
    query_seqlens: Operand | None = None,
    *,
    causal: bool = True,
    do_rotary: bool = False,
    k_norm_epsilon: float | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: bool = False,
    scale: float | None = None,
    sliding_window_cache: bool = False,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> Any:
    """Attention of queries [b, s, h w] to cached and new keys and values, and all of these.

    key, value [b, s, g w], or all in `query`; past_key, past_value [b, g, p, w]; present ones
    [b, g, max(p, total), w], those of a window [b, g, p, w].  Raises OperatorError.
    """
    q, k, v = packed_heads(make, query, key, value, num_heads, kv_num_heads)
    q = _unit(make, q, q_norm_weight, q_norm_epsilon or qk_norm_epsilon)
    k = _unit(make, k, k_norm_weight, k_norm_epsilon or qk_norm_epsilon)
    k_codes, past_k = cache_codes(make, k_quant_type, kv_cache_bit_width, k_scale, k, past_key)
    v_codes, past_v = cache_codes(make, v_quant_type, kv_cache_bit_width, v_scale, v, past_value)
    lengths = (seqlens_k, total_sequence_length, query_seqlens)
    cache = _key_cache(make, q, past_k, lengths, sliding_window_cache, local_window_size, causal)
    tables = (cos_cache, sin_cache) if do_rotary else None
    q, k = rotated_pair(make, q, k, cache, tables, position_ids, rotary_interleaved)
    keys, present_key = _cached(make, cache, k_codes, past_k, k)
    values, present_value = _cached(make, cache, v_codes, past_v, v)
    masks = cache.masks(make, attention_bias, causal, local_window_size)
    sinks = _sinks(head_sink, smooth_softmax, num_heads)
    result = attended(make, q, keys, values, scale, masks, softcap, sinks)
    scores = (_scores(make, result, qk_output, q, keys, cache),) if qk_output else ()
    y = join_heads(make, make.cast(result.output, q.type.dtype))
    return y, present_key, present_value, *scores


def _key_cache(
    make: OpBuilder,
    q: Operand,
    past: Operand | None,
    lengths: tuple[Operand, Operand, Operand | None],
    is_window: bool,
    window: int,
    causal: bool,
) -> PositionedCache | WindowCache:
    """Where keys are, in a cache of a `window` or of all keys; raises OperatorError.

    `lengths`: the inputs seqlens_k, total_sequence_length, query_seqlens.
    """
    seqlens, total, query_seqlens = lengths
    if not causal and (is_window or query_seqlens is not None):
        message = "sliding_window_cache and query_seqlens need causal = 1"
        raise OperatorError("argument/attention", message)
    if is_window:
        return window_cache(make, q, past, seqlens, query_seqlens, window)
    return positioned_cache(make, q, past, seqlens, total, query_seqlens)


def _cached(
    make: OpBuilder, cache: KeyCache, codes: CacheCodes, past: Operand | None, new: Operand
) -> tuple[Operand, Any]:
    """The keys or values that queries may see, and the cache after the call."""
    seen, after = cache.extended(make, past, codes.encoded(make, new))
    return codes.decoded(make, seen), codes.given(make, after)


def _sinks(head_sink: Operand | None, smooth_softmax: int, heads: int) -> Operand | None:
    """One more score for each head; None without them."""
    if head_sink is not None or smooth_softmax != 1:
        return head_sink
    return KnownTensor(np.zeros(heads, np.float32), DType.FLOAT32)


def attended(
    make: OpBuilder,
    q: Operand,
    keys: Operand,
    values: Operand,
    scale: float | None,
    masks: Sequence[Operand],
    softcap: float,
    sinks: Operand | None,
) -> Attended:
    """Attention, computed in float32 at least."""
    a, b, c = (make.cast(x, accumulation_type(q.type.dtype)) for x in (q, keys, values))
    factor = default_scale(q.type.dims[3], scale)
    return attend(make, a, b, c, factor, masks, softcap=softcap, sinks=sinks)


def _scores(
    make: OpBuilder,
    result: Attended,
    mode: int,
    q: Operand,
    keys: Operand,
    cache: PositionedCache | WindowCache,
) -> Operand:
    """Scores before (1) or after (2) the softmax, [b, h, s, total]; 0 for keys that are hidden.

    Raises OperatorError.
    """
    if isinstance(cache, WindowCache):
        raise OperatorError("argument/attention", "sliding_window_cache needs qk_output = 0")
    if mode not in (1, 2):
        raise OperatorError("argument/attention", f"qk_output = {mode}; 0, 1 or 2 is expected")
    scores = result.weights
    if mode == 1:
        is_seen = make("gt", result.scores, constant(result.scores, -math.inf))
        scores = make("select", is_seen, result.scores, constant(result.scores, 0))
    scores = make.reshape(scores, (*q.type.dims[:3], keys.type.dims[2]))
    return make.cast(slice_in_dim(make, scores, 3, 0, cache.whole), q.type.dtype)


def packed_heads(
    make: OpBuilder,
    query: Operand,
    key: Operand | None,
    value: Operand | None,
    heads: int,
    few: int,
) -> list[Operand]:
    """Queries, keys and values with heads, [b, heads, s, w]; raises OperatorError."""
    if few < 1 or heads < 1 or heads % few:
        message = f"num_heads = {heads} is not a multiple of kv_num_heads = {few}"
        raise OperatorError("argument/attention", message)
    if key is not None and value is not None:
        pairs = ((query, heads), (key, few), (value, few))
        return [split_heads(make, x, count) for x, count in pairs]
    of_rank("attention", "query", query, 3)
    every = split_heads(make, query, heads + 2 * few)
    bounds = (0, heads, heads + few, heads + 2 * few)
    return [slice_in_dim(make, every, 1, bounds[i], bounds[i + 1]) for i in range(3)]


def _unit(make: OpBuilder, x: Operand, weight: Operand | None, epsilon: float) -> Operand:
    """The vectors of heads divided by their root mean square, times `weight` if it is given."""
    if weight is None:
        return x
    return scaled(
        make, normalized(make, x, (3,), epsilon, centred=False).items, weight, None, x.type.dtype
    )


def rotated_pair(
    make: OpBuilder,
    q: Operand,
    k: Operand,
    cache: KeyCache,
    tables: Sequence[Operand | None] | None,
    position_ids: Operand | None,
    interleaved: bool,
) -> list[Operand]:
    """Queries and keys, rotated by the angles of their positions if there are `tables` of these."""
    if tables is None:
        return [q, k]
    cos, sin = (_angles(make, cache, table, position_ids) for table in tables)
    return [rotated(make, x, cos, sin, interleaved=interleaved) for x in (q, k)]


def _angles(
    make: OpBuilder, cache: KeyCache, table: Operand | None, position_ids: Operand | None
) -> Operand:
    """The angles of the queries, [batch or 1, 1, rows, half]; raises OperatorError."""
    if table is None:
        raise OperatorError("onnx/arguments", "do_rotary = 1 needs cos_cache and sin_cache")
    half = of_rank("attention", "cos_cache", table, 2)[1]
    if position_ids is None and cache.first is not None:
        piece = slice_in_dim(make, table, 0, cache.first, cache.first + cache.rows)
        return make.reshape(piece, (1, 1, cache.rows, half))
    places = cache.positions(make) if position_ids is None else position_ids
    angles = make("gather", table, make.cast(places, DType.INT64), axis=0)
    return make.reshape(angles, (math.prod(angles.type.dims[:-2]), 1, cache.rows, half))
