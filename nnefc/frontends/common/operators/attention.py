"""Scaled dot-product attention, in the form that `fuse_attention` fuses."""

from __future__ import annotations

import math

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.value_bounds import bounds
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, has_no_items
from nnefc.ir import DType


def attention(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, mask: Operand | None, factor: float
) -> Operand:
    """Attention of rank 3 or 4; as in PyTorch, rows that are masked completely give 0, not NaN."""
    shape = q.type.dims
    groups = 1
    if len(shape) == 4:  # groups of query heads share a head of keys and values
        groups, rest = divmod(shape[1], k.type.dims[1] or 1)
        if rest:
            message = f"{shape[1]} heads of q are not a multiple of {k.type.dims[1]}"
            raise OperatorError("argument/attention", message)
        if groups > 1:
            q = make.reshape(q, (shape[0], k.type.dims[1], groups, *shape[2:]))
            k, v = (make.reshape(x, (*x.type.dims[:2], 1, *x.type.dims[2:])) for x in (k, v))
    scores = make("mul", make("matmul", q, k, transposeB=True), factor)
    if mask is not None:
        scores = apply_mask(make, scores, mask, len(shape), groups)
    last = scores.type.rank - 1
    weights = make("softmax", scores, axes=(last,))
    if mask is not None and not has_no_items(scores) and _may_mask_rows(mask):
        has_keys = make("gt", make("max_reduce", scores, axes=(last,)), -math.inf)
        weights = make("select", has_keys, weights, 0.0)
    return make.reshape(make("matmul", weights, v), (*shape[:-1], v.type.dims[-1]))


def _may_mask_rows(mask: Operand) -> bool:
    """Whether a mask may exclude all keys of a row."""
    is_logical = mask.type.dtype is DType.BOOL
    if isinstance(mask, KnownTensor) and not mask.is_symbolic:
        selected = mask.array if is_logical else mask.array > -np.inf
        return not selected.any(axis=-1).all()
    return is_logical or bounds(mask)[0] == -math.inf


def apply_mask(
    make: OpBuilder, scores: Operand, mask: Operand, rank: int, groups: int = 1
) -> Operand:
    """Scores plus a real mask, or -inf where a boolean mask is false.

    The mask broadcasts to scores of `rank` dimensions, whose heads are split into `groups` here.
    """
    x = make.aligned_right(mask, rank)
    if groups > 1:
        batch, heads, *matrix = x.type.dims
        cut = (1, 1) if heads == 1 else (heads // groups, groups)
        x = make.reshape(x, (batch, *cut, *matrix))
    if mask.type.dtype is DType.BOOL:
        return make("select", x, scores, float("-inf"))
    return make("add", scores, make.cast(x, scores.type.dtype))


def causal_mask(make: OpBuilder, rows: int, keys: int) -> Operand:
    """A mask [rows, keys]: 0 up to the diagonal, -inf above it."""
    key = make.reshape(make.iota(keys), (1, keys))
    row = make.reshape(make.iota(rows), (rows, 1))
    hidden = KnownTensor(np.array(-np.inf, np.float32), DType.FLOAT32)
    return make("select", make("gt", key, row), hidden, 0.0)
