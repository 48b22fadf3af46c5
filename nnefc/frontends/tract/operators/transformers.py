"""Scaled dot-product attention, masked softmax and rotary embedding."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_rank_at_least
from nnefc.frontends.common.operators.attention import apply_mask, attention, causal_mask
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    datum_type,
    scalar,
)
from nnefc.frontends.tract.operators.products import matmul
from nnefc.frontends.tract.registry import F32, NO_TYPE, TypeName, operator
from nnefc.ir import DType


@operator("tract_transformers")
def tract_transformers_sdpa(
    make: OpBuilder,
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None = None,
    scale: Any = False,
    datum_type: TypeName = NO_TYPE,
    acc_datum_type: TypeName = F32,
    is_causal: bool = False,
) -> Any:
    """softmax(scale q k^T + mask) v; heads of q may share heads of k and v (grouped queries).

    q [.., h, m, d] or [b, m, d], k [.., n, d], v [.., n, w].  The mask is added to the scores, or
    selects scores if it is boolean; it is aligned at the last dimension.
    """
    del datum_type
    if is_causal and mask is not None:
        raise OperatorError("argument/sdpa", "a mask and is_causal = true exclude each other")
    rank = q.type.rank
    if not rank == k.type.rank == v.type.rank or rank < 2:
        ranks = f"{rank}, {k.type.rank}, {v.type.rank}"
        message = f"q, k and v have ranks {ranks}; they must be equal, and at least 2"
        raise OperatorError("argument/sdpa", message)
    dtype = q.type.dtype
    # vectors without items have the product 0, whatever the factor is
    factor = 1.0 / math.sqrt(k.type.dims[-1] or 1) if scale is False else scalar(scale)
    shape = (*q.type.dims[:-1], v.type.dims[-1])
    if mask is not None and rank > 4:
        mask = make.aligned_right(mask, rank)
        if any(extent != 1 for extent in mask.type.dims[:-3]):
            mask = make.repeated(mask, (*shape[:-3], *mask.type.dims[-3:]))
    mask = mask if mask is None else _without_tile(mask, shape[-2])
    wide = _accumulation_type(dtype, acc_datum_type)
    q, k, v = (make.cast(_of_rank_3_or_4(make, x), wide) for x in (q, k, v))
    mask = mask if mask is None else _of_rank_3_or_4(make, mask)
    if is_causal:
        mask = causal_mask(make, q.type.dims[-2], k.type.dims[-2])
    y = attention(make, q, k, v, mask, factor)
    return make.cast(make.reshape(y, shape), dtype)


def _without_tile(mask: Operand, rows: int) -> Operand:
    """A mask without the `tile` by which torch_to_nnef repeats it for the queries of its example.

    Only if the mask before it has 1 row or `rows` rows; the number of queries may differ from the
    example's.
    """
    if isinstance(mask, KnownTensor) or mask.op is None or mask.op.name != "tile":
        return mask
    repeats, source = mask.op.attributes["repeats"], mask.op.inputs[0]
    axis = source.type.rank - 2
    if axis < 0 or any(n != 1 for i, n in enumerate(repeats) if i != axis):
        return mask
    return source if source.type.dims[axis] in (1, rows) else mask


def _of_rank_3_or_4(make: OpBuilder, x: Operand) -> Operand:
    """`x` with all batch dimensions before the heads merged, or with one added to rank 2."""
    dims = x.type.dims
    if len(dims) > 4:
        return make.reshape(x, (math.prod(dims[:-3]), *dims[-3:]))
    return make.aligned_right(x, 3) if len(dims) == 2 else x


def _accumulation_type(dtype: DType, named: TypeName) -> DType:
    """The type in which scores are accumulated, at least float32; raises OperatorError."""
    wanted = datum_type(named).dtype if named else dtype
    if not wanted.is_float:
        raise OperatorError("argument/sdpa", f"acc_datum_type = '{named}' is not a real type")
    return DType.FLOAT64 if DType.FLOAT64 in (wanted, dtype) else DType.FLOAT32


@operator("tract_transformers")
def tract_transformers_scaled_masked_softmax(
    make: OpBuilder,
    input: Operand,
    mask: Operand,
    scale: float,
    post_softmax_mask: bool = False,
) -> Any:
    """softmax(scale x + mask) along the last dimension; `post_softmax_mask` sets masked items to 0,
    also in rows that are masked completely.
    """
    scaled = make("mul", input, scale)
    scores = apply_mask(make, scaled, mask, input.type.rank)
    y = make("softmax", scores, axes=(input.type.rank - 1,))
    if not post_softmax_mask:
        return y
    if mask.type.dtype is not DType.BOOL:
        raise OperatorError("argument/softmax", "post_softmax_mask needs a boolean mask")
    return make("select", make.aligned_right(mask, input.type.rank), y, 0.0)


@operator("tract_transformers")
def tract_transformers_apply_rope(
    make: OpBuilder, input: Operand, cos: Operand, sin: Operand
) -> Any:
    """Rotary embedding, x cos + rotate_half(x) sin with rotate_half((a, b)) = (-b, a)."""
    axis = len(of_rank_at_least("apply_rope", "input", input, 1)) - 1
    half = input.type.dims[axis] // 2
    first = slice_in_dim(make, input, axis, 0, half)
    second = slice_in_dim(make, input, axis, half, 2 * half)
    turned = make("concat", [make("neg", second), first], axis=axis)
    c, s = (make.aligned_right(make.cast(x, input.type.dtype), input.type.rank) for x in (cos, sin))
    return make("add", make("mul", input, c), make("mul", turned, s))


@operator("tract_transformers")
def tract_transformers_fused_sdpa(
    make: OpBuilder,
    q: Operand,
    k_new: Operand,
    v_new: Operand,
    k_cache: Operand,
    v_cache: Operand,
    mask: Operand,
    scale: float,
    window: int = 0,
) -> Any:
    """Attention over cached and new keys and values: the result, and both caches with the new items
    appended.

    q [b, h, S, d], k_new, v_new [b, g, S, d], k_cache, v_cache [b, g, P, d], mask [.., S, P + S].
    `window` is ignored: the mask implies it.
    """
    del window
    k, v = (_appended(make, old, new) for old, new in ((k_cache, k_new), (v_cache, v_new)))
    y = tract_transformers_sdpa(make, q, k, v, mask, scale)
    return y, make.cast(k, q.type.dtype), make.cast(v, q.type.dtype)


@operator("tract_transformers")
def tract_transformers_gpt_oss_sdpa(
    make: OpBuilder,
    q: Operand,
    k_new: Operand,
    v_new: Operand,
    k_cache: Operand,
    v_cache: Operand,
    mask: Operand,
    sinks: Operand,
    scale: float,
    window: int = 0,
) -> Any:
    """`tract_transformers_fused_sdpa` with attention sinks [h]: one more score per head, without a
    value.
    """
    del window
    dtype = q.type.dtype
    batch, heads, rows, width = of_rank("gpt_oss_sdpa", "q", q, 4)
    k, v = (_appended(make, old, new) for old, new in ((k_cache, k_new), (v_cache, v_new)))
    _, few, keys, _ = of_rank("gpt_oss_sdpa", "k_cache", k, 4)
    if few < 1 or heads % few:
        message = f"{heads} heads of q are not a multiple of {few}"
        raise OperatorError("argument/gpt_oss_sdpa", message)
    if sinks.type.volume != heads:
        raise OperatorError(
            "argument/gpt_oss_sdpa", f"sinks has {sinks.type.volume} items, not {heads}"
        )
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    # heads that share keys are merged into the rows of one product
    grouped = make.reshape(make.cast(q, wide), (batch, few, heads // few * rows, width))
    scores = make("mul", matmul(make, grouped, make.cast(k, wide), False, True), scale)
    scores = make.reshape(scores, (batch, heads, rows, keys))
    scores = apply_mask(make, scores, mask, 4)
    sink = make.reshape(make.cast(sinks, wide), (1, heads, 1, 1))
    sink = make.repeated(sink, (batch, heads, rows, 1))
    weights = make("softmax", make("concat", [scores, sink], axis=3), axes=(3,))
    weights = make.reshape(
        slice_in_dim(make, weights, 3, 0, keys), (batch, few, heads // few * rows, keys)
    )
    y = make.reshape(matmul(make, weights, make.cast(v, wide)), (batch, heads, rows, width))
    return make.cast(y, dtype), make.cast(k, dtype), make.cast(v, dtype)


def _appended(make: OpBuilder, old: Operand, new: Operand) -> Operand:
    """The cache `old` with `new` appended along the third dimension."""
    return make("concat", list(make.unified(old, new)), axis=2)
