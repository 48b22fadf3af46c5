"""Rotary embedding of positions."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.heads import join_heads, rotated, split_heads
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    make: OpBuilder,
    X: Operand,
    cos_cache: Operand,
    sin_cache: Operand,
    position_ids: Operand | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Any:
    """X [batch, heads, items, width] or [batch, items, heads * width].

    The caches are [batch, items, half], or [positions, half] with `position_ids` [batch, items].
    """
    rank = len(of_rank("rotary_embedding", "X", X, 3, 4))
    if rank == 3 and num_heads < 1:
        raise OperatorError("argument/rotary_embedding", "num_heads is missing")
    x = split_heads(make, X, num_heads) if rank == 3 else X
    caches = [cos_cache, sin_cache]
    if position_ids is not None:
        places = make.cast(position_ids, DType.INT64)
        caches = [make("gather", each, places, axis=0) for each in caches]
    cos, sin = (_angles(make, x, each, rotary_embedding_dim) for each in caches)
    y = rotated(make, x, cos, sin, interleaved=interleaved)
    return join_heads(make, y) if rank == 3 else y


def _angles(make: OpBuilder, x: Operand, cache: Operand, rotary: int) -> Operand:
    """A cache [batch, items, half] as [batch, 1, items, half]; raises OperatorError."""
    batch, items, half = of_rank("rotary_embedding", "cos_cache", cache, 3)
    wanted = (rotary or x.type.dims[3]) // 2
    if half != wanted or items != x.type.dims[2]:
        message = f"a cache of shape {[batch, items, half]} for vectors {list(x.type.dims)}"
        raise OperatorError("argument/rotary_embedding", message)
    return make.reshape(cache, (batch, 1, items, half))


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding_of_positions(
    make: OpBuilder,
    input: Operand,
    position_ids: Operand,
    cos_cache: Operand,
    sin_cache: Operand,
    *,
    interleaved: bool = False,
    is_packed_batching: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Any:
    """`position_ids` [batch, items], or one number: the position of the first item."""
    del scale, is_packed_batching  # of no effect in onnxruntime
    rank = len(of_rank("rotary_embedding", "input", input, 3, 4))
    half = of_rank("rotary_embedding", "cos_cache", cos_cache, 2)[1]
    if rank == 3:
        heads = num_heads if rotary_embedding_dim else input.type.dims[2] // (2 * half or 1)
        x = split_heads(make, input, heads)
    else:
        x = input
    items = x.type.dims[2]
    places = make.cast(position_ids, DType.INT64)
    if places.type.volume == 1 and places.type.rank == 1:
        places = make(
            "add", make.reshape(make.iota(items), (1, items)), make.reshape(places, (1, 1))
        )
    cos, sin = (make("gather", each, places, axis=0) for each in (cos_cache, sin_cache))
    cos, sin = (make.reshape(each, (each.type.dims[0], 1, items, half)) for each in (cos, sin))
    y = rotated(make, x, cos, sin, interleaved=interleaved)
    return join_heads(make, y) if rank == 3 else y
