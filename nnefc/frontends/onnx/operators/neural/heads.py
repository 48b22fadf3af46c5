"""Heads of attention: splitting, joining, rotating and caching them; masks of keys."""

from __future__ import annotations

import math

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType


def split_heads(make: OpBuilder, x: Operand, heads: int) -> Operand:
    """A tensor [batch, items, heads * width] as [batch, heads, items, width]."""
    batch, items, width = of_rank("attention", "a tensor of all heads", x, 3)
    if heads < 1 or width % heads:
        message = f"{width} items cannot be divided by {heads} heads"
        raise OperatorError("argument/attention", message)
    return make.transpose(make.reshape(x, (batch, items, heads, width // heads)), (0, 2, 1, 3))


def join_heads(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [batch, heads, items, width] as [batch, items, heads * width]."""
    batch, heads, items, width = x.type.dims
    return make.reshape(make.transpose(x, (0, 2, 1, 3)), (batch, items, heads * width))


def appended(make: OpBuilder, past: Operand | None, new: Operand) -> Operand:
    """Cached keys or values [batch, heads, items, width] followed by new ones."""
    if past is None or past.type.dims[2:3] == (0,):
        return new
    return make("concat", [past, make.cast(new, past.type.dtype)], axis=2)


def rotated(
    make: OpBuilder, x: Operand, cos: Operand, sin: Operand, *, interleaved: bool = False
) -> Operand:
    """Rotary embedding (Su et al. 2021) of the first items of vectors [batch, heads, items, width].

    cos, sin [batch or 1, 1, items, half]; the first 2 half items of each vector are rotated, in
    pairs (i, i + half), or (2 i, 2 i + 1) if `interleaved`.  Raises OperatorError.
    """
    *outer, width = x.type.dims
    last, half = len(outer), cos.type.dims[-1]
    if 2 * half > width:
        message = f"{half} angles for vectors of {width} items"
        raise OperatorError("argument/rotary_embedding", message)
    cos, sin = (make.cast(each, x.type.dtype) for each in (cos, sin))
    part = slice_in_dim(make, x, last, 0, 2 * half)
    if interleaved:
        pairs = make.reshape(part, (*outer, half, 2))
        first, second = (
            make.reshape(slice_in_dim(make, pairs, last + 1, i, i + 1), (*outer, half))
            for i in range(2)
        )
        real = make("sub", make("mul", first, cos), make("mul", second, sin))
        imaginary = make("add", make("mul", first, sin), make("mul", second, cos))
        both = [make.reshape(each, (*outer, half, 1)) for each in (real, imaginary)]
        turned = make.reshape(make("concat", both, axis=last + 1), (*outer, 2 * half))
    else:
        first, second = (slice_in_dim(make, part, last, i * half, (i + 1) * half) for i in range(2))
        swapped = make("concat", [make("neg", second), first], axis=last)
        c, s = (make("concat", [each, each], axis=last) for each in (cos, sin))
        turned = make("add", make("mul", part, c), make("mul", swapped, s))
    if 2 * half == width:
        return turned
    return make("concat", [turned, slice_in_dim(make, x, last, 2 * half, width)], axis=last)


def filled_mask(make: OpBuilder, keep: Operand, value: float, dtype: DType) -> Operand:
    """A mask that adds 0 where `keep` is true, `value` elsewhere."""
    hidden = KnownTensor(np.array(value, dtype.numpy), dtype)
    zero = KnownTensor(np.array(0, dtype.numpy), dtype)
    return make("select", keep, zero, hidden)


def padded_mask(make: OpBuilder, mask: Operand, keys: int) -> Operand:
    """A mask with its last dimension extended to all keys; further keys are hidden."""
    if not mask.type.rank or mask.type.dims[-1] >= keys:
        return mask
    if not mask.type.dtype.is_float and mask.type.dtype is not DType.BOOL:
        mask = make.cast(mask, DType.FLOAT32)  # integers have no infinity
    *outer, have = mask.type.dims
    hidden = False if mask.type.dtype is DType.BOOL else -np.inf
    one = np.full((1,) * (len(outer) + 1), hidden).astype(mask.type.dtype.numpy)
    rest = make.repeated(KnownTensor(one, mask.type.dtype), (*outer, keys - have))
    return make("concat", [mask, rest], axis=len(outer))


def keys_before(make: OpBuilder, counts: Operand, keys: int) -> Operand:
    """Whether each key is one of the first, [batch, 1, 1, keys]; counts [batch]."""
    limit = make.reshape(make.cast(counts, DType.INT64), (counts.type.volume, 1, 1, 1))
    return make("lt", make.reshape(make.iota(keys), (1, 1, 1, keys)), limit)


def default_scale(width: int, scale: float | None) -> float:
    """The factor of scores: 1 / sqrt(width), unless it is given."""
    return scale if scale else 1.0 / math.sqrt(width or 1)
