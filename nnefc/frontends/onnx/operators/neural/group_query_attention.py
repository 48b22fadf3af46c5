"""Grouped-query attention with a cache of keys and values, as the GenAI builder writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.attention import Attended, attend, causal_mask
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.operators.neural.heads import (
    appended,
    default_scale,
    join_heads,
    keys_before,
    padded_mask,
    rotated,
    split_heads,
)
from nnefc.frontends.onnx.operators.neural.normalization_steps import normalized, scaled
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType
from nnefc.symbolic.integers import largest, statically_equal

_PLAIN: Final = ("NONE", "NONE", None, None)
"""The types and scales of keys and values in a cache that is not quantized."""


@dataclass(frozen=True, slots=True)
class PositionedCache:
    """Where new keys and values are among all.

    `counts` [batch]: the keys of each sample after the call.  `begins` [batch]: those before it;
    None if all samples have `before`, and the new ones follow.
    """

    rows: int
    keys: int
    before: int
    counts: Operand
    begins: Operand | None
    whole: int
    """The keys of the longest sample after the call, as the model says."""

    def positions(self, make: OpBuilder) -> Operand:
        """The positions of the queries, [batch or 1, rows]."""
        if self.begins is None:
            return make.reshape(make.iota(self.rows, self.before), (1, self.rows))
        begins = make.reshape(self.begins, (self.begins.type.volume, 1))
        return make("add", make.reshape(make.iota(self.rows), (1, self.rows)), begins)

    def extended(self, make: OpBuilder, past: Operand | None, new: Operand) -> Operand:
        """The cached keys or values with the new ones: [batch, heads, keys, width]."""
        if self.begins is None:
            return appended(make, past, new)
        assert past is not None
        batch, heads, room, width = past.type.dims
        both = make("concat", [past, make.cast(new, past.type.dtype)], axis=2)
        key = make.reshape(make.iota(self.keys), (1, self.keys))
        offset = make("sub", key, make.reshape(self.begins, (batch, 1)))
        is_new = make("and", make("ge", offset, 0), make("lt", offset, self.rows))
        old = make("min", key, room - 1)
        index = make("select", is_new, make("add", offset, room), old)
        if batch == 1:
            return make("gather", both, make.reshape(index, (self.keys,)), axis=2)
        index = make.reshape(index, (batch, 1, self.keys, 1))
        index = make.repeated(index, (batch, heads, self.keys, width))
        return make("gather_elements", both, index, axis=2)

    def masks(
        self, make: OpBuilder, bias: Operand | None, causal: bool, window: int
    ) -> list[Operand]:
        """The bias of scores, and the masks of keys that queries do not see.

        `window`: how many keys they see, or -1.
        """
        masks = [] if bias is None else [padded_mask(make, bias, self.keys)]
        if not causal:
            if self.begins is not None or not self.before:
                masks.append(keys_before(make, self.counts, self.keys))
            return masks
        positions = self.positions(make)
        places = make.reshape(positions, (positions.type.dims[0], 1, self.rows, 1))
        key = make.reshape(make.iota(self.keys), (1, 1, 1, self.keys))
        if window >= 0:
            masks.append(make("gt", key, make("sub", places, window)))
        if self.begins is None:
            masks.append(causal_mask(make, self.rows, self.keys, self.before))
        else:
            masks.append(make("le", key, places))
        return masks


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand | None,
    value: Operand | None,
    past_key: Operand | None,
    past_value: Operand | None,
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

    key, value [b, s, g w], or all in `query`; past_key, past_value [b, g, p, w], present ones
    [b, g, max(p, total), w].  seqlens_k [b]: the keys of each sample after the call, less 1.
    """
    is_quantized = kv_cache_bit_width or (k_quant_type, v_quant_type, k_scale, v_scale) != _PLAIN
    _check({"a quantized cache": is_quantized, "query_seqlens": query_seqlens is not None,
            "sliding_window_cache": sliding_window_cache})  # fmt: skip
    q, k, v = packed_heads(make, query, key, value, num_heads, kv_num_heads)
    q = _unit(make, q, q_norm_weight, q_norm_epsilon or qk_norm_epsilon)
    k = _unit(make, k, k_norm_weight, k_norm_epsilon or qk_norm_epsilon)
    cache = positioned_cache(make, q, past_key, seqlens_k, total_sequence_length)
    if do_rotary:
        tables = (cos_cache, sin_cache)
        q, k = rotated_pair(make, q, k, cache, tables, position_ids, rotary_interleaved)
    keys, values = cache.extended(make, past_key, k), cache.extended(make, past_value, v)
    masks = cache.masks(make, attention_bias, causal, local_window_size)
    if head_sink is None and smooth_softmax == 1:
        head_sink = KnownTensor(np.zeros(num_heads, np.float32), DType.FLOAT32)
    result = attended(make, q, keys, values, scale, masks, softcap, head_sink)
    scores = (_scores(make, result, qk_output, q, keys, cache),) if qk_output else ()
    return join_heads(make, make.cast(result.output, q.type.dtype)), keys, values, *scores


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
    cache: PositionedCache,
) -> Operand:
    """Scores before (1) or after (2) the softmax, [b, h, s, total]; 0 for keys that are hidden.

    Raises OperatorError.
    """
    if mode not in (1, 2):
        raise OperatorError("argument/attention", f"qk_output = {mode}; 0, 1 or 2 is expected")
    scores = result.weights
    if mode == 1:
        is_seen = make("gt", result.scores, constant(result.scores, -math.inf))
        scores = make("select", is_seen, result.scores, constant(result.scores, 0))
    scores = make.reshape(scores, (*q.type.dims[:3], keys.type.dims[2]))
    return make.cast(slice_in_dim(make, scores, 3, 0, cache.whole), q.type.dtype)


def _check(unsupported: Mapping[str, Any]) -> None:
    """Raise OperatorError if a call uses something that is not supported."""
    used = [name for name, is_used in unsupported.items() if is_used]
    if used:
        raise OperatorError("onnx/unsupported", f"{', '.join(used)}: not supported")


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


def positioned_cache(
    make: OpBuilder, q: Operand, past: Operand | None, seqlens: Operand, total: Operand
) -> PositionedCache:
    """Where the new keys are; raises OperatorError.

    Without cached keys, and for one sample whose keys fill the cache, the new keys follow.  Others
    are written behind the keys that each sample has, into a cache that may be larger.
    """
    batch, _, rows, _ = q.type.dims
    of_shape("attention", "seqlens_k", make.reshape(seqlens, (seqlens.type.volume,)),
             (batch,))  # fmt: skip
    counts = make("add", make.cast(make.reshape(seqlens, (batch,)), DType.INT64), 1)
    room = 0 if past is None else of_rank("attention", "past_key", past, 4)[2]
    is_known = isinstance(total, KnownTensor) or total.op is None
    whole = integers(total)[0] if is_known else largest([room, rows])
    fills = is_known and batch == 1 and whole == room + rows
    if statically_equal(room, 0) or fills:
        return PositionedCache(rows, room + rows, room, counts, None, room + rows)
    begins = make("max", make("sub", counts, rows), 0)
    return PositionedCache(rows, largest([room, whole]), 0, counts, begins, whole)


def rotated_pair(
    make: OpBuilder,
    q: Operand,
    k: Operand,
    cache: PositionedCache,
    tables: Sequence[Operand | None],
    position_ids: Operand | None,
    interleaved: bool,
) -> list[Operand]:
    """Queries and keys, rotated by the angles of their positions."""
    cos, sin = (_angles(make, cache, table, position_ids) for table in tables)
    return [rotated(make, x, cos, sin, interleaved=interleaved) for x in (q, k)]


def _angles(
    make: OpBuilder, cache: PositionedCache, table: Operand | None, position_ids: Operand | None
) -> Operand:
    """The angles of the queries, [batch or 1, 1, rows, half]; raises OperatorError."""
    if table is None:
        raise OperatorError("onnx/arguments", "do_rotary = 1 needs cos_cache and sin_cache")
    half = of_rank("attention", "cos_cache", table, 2)[1]
    if position_ids is None and cache.begins is None:
        piece = slice_in_dim(make, table, 0, cache.before, cache.before + cache.rows)
        return make.reshape(piece, (1, 1, cache.rows, half))
    places = cache.positions(make) if position_ids is None else position_ids
    angles = make("gather", table, make.cast(places, DType.INT64), axis=0)
    return make.reshape(angles, (math.prod(angles.type.dims[:-2]), 1, cache.rows, half))
