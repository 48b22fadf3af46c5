"""Grouped-query attention (Ainslie et al. 2023): heads of keys and values repeat for query heads.

    %t: float32[1,2,3,7,8] = tile(%k) {repeats = [1,1,3,1,1]}
    %w: float32[1,6,7,8] = reshape(%t) {shape = [1,6,7,8]}

The batch [1,6] of six heads is refined to [1,2,3].  In the finer batch the repetition is a
dimension of stride 0, so nothing is copied.
"""

from __future__ import annotations

import math
from typing import Final

from nnefc.ir import Graph, Op, Shape, TensorType, Value
from nnefc.ops.core.strided_rules import reshaped
from nnefc.passes.analysis.strided_views import StridedView
from nnefc.passes.op_queries import producer

MAX_BATCH_RANK: Final = 6
"""Most dimensions of a batch in attention kernels."""


def finer_batch(k: Value, v: Value) -> Shape | None:
    """The finer batch in which keys and values repeat along whole dimensions; None if none."""
    of_k, of_v = _finer_batch(k), _finer_batch(v)
    return of_k if of_k == of_v and len(of_k or ()) <= MAX_BATCH_RANK else None


def unrepeated(value: Value) -> Value:
    """Keys or values with the batch that `finer_batch` returns: the operand of their reshape."""
    assert value.op is not None
    return value.op.inputs[0]


def _finer_batch(value: Value) -> Shape | None:
    """The batch before the reshape of a tiled value; None for other values."""
    reshape = producer(value, "reshape")
    if reshape is None:
        return None
    inner = reshape.inputs[0]
    if producer(inner, "tile") is None or inner.type.dims[-2:] != value.type.dims[-2:]:
        return None
    batch = inner.type.dims[:-2]
    return None if _split(value.type.dims[:-2], batch) is None else batch


def _split(batch: Shape, finer: Shape) -> list[Shape] | None:
    """The extents of `finer` that each extent of `batch` is split into; None if impossible."""
    split: list[Shape] = []
    start = 0
    for extent in batch:
        end = start + 1
        while end <= len(finer) and math.prod(finer[start:end]) < extent:
            end += 1
        if math.prod(finer[start:end]) != extent:
            return None
        split.append(finer[start:end])
        start = end
    return split if start == len(finer) else None


def finer_view(x: StridedView, dims: Shape, finer: Shape) -> StridedView | None:
    """A view of shape `dims` with its batch refined to `finer`; None if strides do not allow it."""
    strides = reshaped(dims, x.strides, (*finer, *dims[-2:]))
    return None if strides is None else StridedView(x.source, x.offset, strides)


def finer_operand(graph: Graph, value: Value, batch: Shape, finer: Shape, user: Op) -> Value:
    """An operand that broadcasts with the scores, reshaped to the batch `finer` before `user`."""
    split = _split(batch, finer)
    assert split is not None
    dims = value.type.dims
    after: list[int] = []
    for extent, extents in zip(dims, split):
        after += [1] * len(extents) if extent == 1 else extents
    shape = (*after, *dims[len(batch) :])
    if shape == dims:
        return value
    attributes = {"shape": shape, "axis_start": 0, "axis_count": -1}
    type_ = TensorType(value.type.dtype, shape)
    return graph.insert(Op("reshape", [value], attributes, [type_]), user).output
