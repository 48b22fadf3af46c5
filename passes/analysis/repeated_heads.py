"""Attention whose heads of keys and values are repeated for groups of heads of queries.

    %t: float32[1,2,3,7,8] = tile(%k) {repeats = [1,1,3,1,1]}
    %w: float32[1,6,7,8] = reshape(%t) {shape = [1,6,7,8]}

Six heads are two times three: with a batch [1,2,3] instead of [1,6] nothing has to be copied.
"""

from __future__ import annotations

import math
from typing import Final

from nnefc.ir import Graph, Op, Shape, TensorType, Value
from nnefc.passes.analysis.strided import StridedView, reshaped

BATCH: Final = 6
"""Dimensions of a batch that kernels have."""


def groups(k: Value, v: Value) -> Shape | None:
    """The batch in which keys and values repeat whole dimensions, if they do."""
    found = [_repeated(x) for x in (k, v)]
    return found[0] if found[0] == found[1] and len(found[0] or ()) <= BATCH else None


def before(value: Value) -> Value:
    """Keys or values with the batch that `groups` gives."""
    assert value.op is not None
    return value.op.inputs[0]


def _repeated(value: Value) -> Shape | None:
    op = value.op
    if op is None or op.name != "reshape":
        return None
    inner = op.inputs[0]
    is_tile = inner.op is not None and inner.op.name == "tile"
    if not is_tile or inner.type.dims[-2:] != value.type.dims[-2:]:
        return None
    batch = inner.type.dims[:-2]
    return None if _split(value.type.dims[:-2], batch) is None else batch


def _split(batch: Shape, finer: Shape) -> list[Shape] | None:
    """Which dimensions of `finer` each one of `batch` becomes."""
    found: list[Shape] = []
    start = 0
    for extent in batch:
        end = start + 1
        while end <= len(finer) and math.prod(finer[start:end]) < extent:
            end += 1
        if math.prod(finer[start:end]) != extent:
            return None
        found.append(finer[start:end])
        start = end
    return found if start == len(finer) else None


def finer_view(x: StridedView, dims: Shape, finer: Shape) -> StridedView | None:
    """A view of shape `dims` with the batch `finer`."""
    strides = reshaped(dims, x.strides, (*finer, *dims[-2:]))
    return None if strides is None else StridedView(x.source, x.offset, strides)


def finer_operand(graph: Graph, value: Value, batch: Shape, finer: Shape, user: Op) -> Value:
    """An operand of the scores, which repeats along dimensions of one, with the batch `finer`."""
    parts = _split(batch, finer)
    assert parts is not None
    dims = value.type.dims
    after: list[int] = []
    for extent, part in zip(dims, parts):
        after += [1] * len(part) if extent == 1 else part
    shape = (*after, *dims[len(batch) :])
    if shape == dims:
        return value
    attributes = {"shape": shape, "axis_start": 0, "axis_count": -1}
    type_ = TensorType(value.type.dtype, shape)
    return graph.insert(Op("reshape", [value], attributes, [type_]), user).output
