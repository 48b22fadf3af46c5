"""Attention to blocks of keys that a table selects, as models of the Phi-3-small family have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.block_weights import known_items
from nnefc.frontends.onnx.operators.neural.cached_keys import positioned_cache
from nnefc.frontends.onnx.operators.neural.group_query_attention import (
    attended,
    packed_heads,
    rotated_pair,
)
from nnefc.frontends.onnx.operators.neural.heads import join_heads
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


@operator("SparseAttention", domain=MICROSOFT)
def sparse_attention(
    make: OpBuilder,
    query: Operand,
    key: Operand | None,
    value: Operand | None,
    past_key: Operand,
    past_value: Operand,
    block_row_indices: Operand,
    block_col_indices: Operand,
    total_sequence_length: Operand,
    key_total_sequence_lengths: Operand,
    cos_cache: Operand | None = None,
    sin_cache: Operand | None = None,
    *,
    do_rotary: bool = False,
    kv_num_heads: int,
    num_heads: int,
    rotary_interleaved: bool = False,
    scale: float | None = None,
    sparse_block_size: int,
) -> Any:
    """Causal attention of queries [b, s, h w] to selected blocks of the keys, and the caches.

    key, value [b, s, g w], or all in `query`; past and present ones [b, g, room, w].
    key_total_sequence_lengths [b]: the keys of each sample after the call.  The block indices are
    rows and columns of sparse matrices [layouts, blocks, blocks]; head i has layout i % layouts.
    Raises OperatorError.
    """
    q, k, v = packed_heads(make, query, key, value, num_heads, kv_num_heads)
    last = make("sub", make.cast(key_total_sequence_lengths, DType.INT64), 1)
    cache = positioned_cache(make, q, past_key, last, total_sequence_length)
    tables = (cos_cache, sin_cache) if do_rotary else None
    q, k = rotated_pair(make, q, k, cache, tables, None, rotary_interleaved)
    (keys, _), (values, _) = (
        cache.extended(make, past, new) for past, new in ((past_key, k), (past_value, v))
    )
    rows = known_items(make, block_row_indices, "block_row_indices")
    columns = known_items(make, block_col_indices, "block_col_indices")
    layouts = _layouts(rows, columns, num_heads)
    selected = _selected(make, layouts, cache.positions(make), keys.type.dims[2], sparse_block_size)
    masks = [*cache.masks(make, None, True, -1), _of_heads(make, selected, num_heads)]
    result = attended(make, q, keys, values, scale, masks, 0.0, None)
    return join_heads(make, make.cast(result.output, q.type.dtype)), keys, values


def _layouts(rows: Array, columns: Array, heads: int) -> Array:
    """Which blocks of keys each block of queries sees: bool [layouts, blocks, blocks]."""
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns) or heads % len(rows):
        shapes = f"{list(rows.shape)} and {list(columns.shape)}"
        message = f"block indices of shapes {shapes} for {heads} heads"
        raise OperatorError("argument/attention", message)
    blocks = rows.shape[1] - 1
    layouts = np.zeros((len(rows), blocks, blocks), np.bool_)
    for layout, starts, items in zip(layouts, rows.tolist(), columns.tolist(), strict=True):
        if starts[0] or sorted(starts) != starts or starts[-1] > len(items):
            message = f"block_row_indices from {starts[0]} to {starts[-1]} do not begin at 0, or "
            message += f"descend, or end behind the {len(items)} columns"
            raise OperatorError("argument/attention", message)
        chosen = items[: starts[-1]]
        if any(not 0 <= column < blocks for column in chosen):
            message = f"block_col_indices from {min(chosen)} to {max(chosen)} for {blocks} blocks"
            raise OperatorError("argument/attention", message)
        for row in range(blocks):
            layout[row, items[starts[row] : starts[row + 1]]] = True
    return layouts


def _selected(
    make: OpBuilder, layouts: Array, positions: Operand, keys: int, block: int
) -> Operand:
    """Whether queries at `positions` [b, s] see each key: bool [b, layouts, s, keys]."""
    if block < 1:
        raise OperatorError("argument/attention", f"sparse_block_size = {block}")
    count, blocks, _ = layouts.shape
    batch, rows = positions.type.dims
    table = KnownTensor(layouts.transpose(1, 0, 2), DType.BOOL)
    chosen = make("min", make("div", positions, block), blocks - 1)
    of_blocks = make("gather", table, make.reshape(chosen, (batch * rows,)), axis=0)
    column = make("min", make("div", make.iota(keys), block), blocks - 1)
    items = make("gather", of_blocks, column, axis=2)
    return make.transpose(make.reshape(items, (batch, rows, count, keys)), (0, 2, 1, 3))


def _of_heads(make: OpBuilder, masks: Operand, heads: int) -> Operand:
    """Masks of layouts [b, layouts, s, keys] as those of heads, which take them in turns."""
    batch, count, rows, keys = masks.type.dims
    if count == 1:
        return masks
    wide = make.reshape(masks, (batch, 1, count, rows, keys))
    wide = make.repeated(wide, (batch, heads // count, count, rows, keys))
    return make.reshape(wide, (batch, heads, rows, keys))
