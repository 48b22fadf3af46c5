"""Scaled dot-product attention, in the form that `fuse_attention` fuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.value_bounds import bounds
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, has_no_items
from nnefc.ir import DType


class Attended(NamedTuple):
    """The steps of attention; all but `output` are [.., heads, queries, keys], grouped as below."""

    products: Operand
    """The scaled products of queries and keys."""
    capped: Operand
    scores: Operand
    """With the masks."""
    weights: Operand
    output: Operand
    """[.., heads, queries, width]."""


def attention(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, mask: Operand | None, factor: float
) -> Operand:
    """`attend` with one mask."""
    return attend(make, q, k, v, factor, () if mask is None else (mask,)).output


def attend(
    make: OpBuilder,
    q: Operand,
    k: Operand,
    v: Operand,
    factor: float,
    masks: Sequence[Operand] = (),
    *,
    softcap: float = 0.0,
    sinks: Operand | None = None,
) -> Attended:
    """Attention of rank 3 or 4; as in PyTorch, rows that are masked completely give 0, not NaN.

    Heads of q may share heads of k and v; the steps then have the groups of heads as a dimension.
    `softcap`: scores s become softcap tanh(s / softcap).  `sinks` [heads]: one more score per head,
    without a value.  Raises OperatorError.
    """
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
    products = make("mul", make("matmul", q, k, transposeB=True), factor)
    capped = products
    if softcap:
        capped = make("mul", make("tanh", make("mul", products, 1.0 / softcap)), softcap)
    scores = capped
    for mask in masks:
        scores = apply_mask(make, scores, mask, len(shape), groups)
    weights = _weights(make, scores, sinks)
    if not has_no_items(scores) and sinks is None and _may_hide_all_keys(masks):
        last = scores.type.rank - 1
        has_keys = make("gt", make("max_reduce", scores, axes=(last,)), -math.inf)
        weights = make("select", has_keys, weights, 0.0)
    output = make.reshape(make("matmul", weights, v), (*shape[:-1], v.type.dims[-1]))
    return Attended(products, capped, scores, weights, output)


def _weights(make: OpBuilder, scores: Operand, sinks: Operand | None) -> Operand:
    """The softmax of scores, with the scores `sinks` beside them."""
    *shape, keys = scores.type.dims
    last = len(shape)
    if sinks is None:
        return make("softmax", scores, axes=(last,))
    batch, *heads, rows = shape
    if sinks.type.volume != math.prod(heads):
        message = f"{sinks.type.volume} sinks for {math.prod(heads)} heads"
        raise OperatorError("argument/attention", message)
    sink = make.reshape(make.cast(sinks, scores.type.dtype), (1, *heads, 1, 1))
    sink = make.repeated(sink, (batch, *heads, rows, 1))
    every = make("softmax", make("concat", [scores, sink], axis=last), axes=(last,))
    return slice_in_dim(make, every, last, 0, keys)


def _may_hide_all_keys(masks: Sequence[Operand]) -> bool:
    """Whether masks may exclude all keys of a row, alone or together."""
    excluding = [x for x in masks if x.type.dtype is DType.BOOL or bounds(x)[0] == -math.inf]
    return len(excluding) > 1 or any(map(_may_mask_rows, excluding))


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


def causal_mask(make: OpBuilder, rows: int, keys: int, before: int = 0) -> Operand:
    """A mask [rows, keys]: 0 for the first `before` + 1 keys of row 0, one more of each next row.

    -inf for the keys behind them.
    """
    key = make.reshape(make.iota(keys), (1, keys))
    row = make.reshape(make.iota(rows, before), (rows, 1))
    hidden = KnownTensor(np.array(-np.inf, np.float32), DType.FLOAT32)
    return make("select", make("gt", key, row), hidden, 0.0)
