"""Rules of `canonicalise` that turn other operations into views, and move views away."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from nnefc.ir import Op, Value
from nnefc.ops.standard.reshape_transpose import permutation
from nnefc.ops.tools.table import traits_of
from nnefc.passes.canonicalise.rules import NewOp, Result, rule
from nnefc.passes.op_queries import is_view, producer


@rule("gather")
def _gather(op: Op) -> Result:
    """Replace a gather of adjacent items by a slice, such as that of queries, keys or values."""
    table, indices = op.inputs
    constant = producer(indices, "constant")
    if constant is None or indices.type.rank > 1 or not indices.type.volume:
        return None
    items = np.asarray(constant.attributes["value"]).reshape(-1)
    axis: int = op.attributes["axis"]
    first, count = int(items[0]), indices.type.volume
    if items.size != count or not 0 <= first <= table.type.dims[axis] - count:
        return None
    if not np.array_equal(items, np.arange(first, first + count)):
        return None
    bounds = {"axes": (axis,), "begin": (first,), "end": (first + count,)}
    taken: Value | NewOp = NewOp("slice", [table], bounds)
    if count == table.type.dims[axis]:
        taken = table
    if indices.type.rank == 0:
        return NewOp("reshape", [taken], {"shape": op.output.type.dims})
    return [taken] if isinstance(taken, Value) else taken


@rule("reshape")
def _between_views(op: Op) -> Result:
    """Add or multiply stored data before two views that cancel each other.

    Attention in windows adds a mask of each window to scores whose windows have a dimension of
    their own for this.
    """
    inner = producer(op.inputs[0], "add", "mul")
    if inner is None or len(inner.output.users) != 1:
        return None
    x, other = inner.inputs
    if x.op is None or not is_view(x.op) or other.op is None or not traits_of(other.op).data:
        return None
    source = x.op.inputs[0]
    if source.type != op.output.type or x.type != inner.output.type:
        return None
    dims = reshaped_operand(other.type.dims, x.type.dims, source.type.dims)
    if dims is None:
        return None
    return NewOp(inner.name, [source, NewOp("reshape", [other], {"shape": dims})])


@rule("reshape")
def _around_transpose(op: Op) -> Result:
    """Reshape before a transpose that moves dimensions as one between two views.

    PyTorch's exporter merges batch and heads to transpose keys:

        %a: float32[6,5,4] = reshape(%k) {shape = [6,5,4]}
        %b: float32[6,4,5] = transpose(%a) {axes = [0,2,1]}
        %y: float32[2,3,4,5] = reshape(%b) {shape = [2,3,4,5]}

    becomes a transpose of %k: float32[2,3,5,4] with axes = [0,1,3,2].
    """
    transpose = producer(op.inputs[0], "transpose")
    view = None if transpose is None else transpose.inputs[0].op
    if transpose is None or view is None or not is_view(view):
        return None
    dims, moved = op.output.type.dims, transpose.output.type.dims
    order = permutation(transpose.attributes["axes"], len(moved))
    pairs = list(_groups(moved, dims))
    if any(len(before) != 1 for before, _ in pairs):
        return None
    parts = {axis: after for axis, (_, after) in zip(order, pairs, strict=True)}
    taken = [i for axis in range(len(moved)) for i in parts[axis]]
    shape = tuple(dims[i] for i in taken)
    (source,) = view.inputs
    same = source.type.dims == shape
    before = source if same else NewOp("reshape", [source], {"shape": shape})
    return NewOp("transpose", [before], {"axes": tuple(taken.index(i) for i in range(len(dims)))})


def reshaped_operand(
    dims: Sequence[int], old: Sequence[int], new: Sequence[int]
) -> tuple[int, ...] | None:
    """The shape of an operand that broadcasts to `new` as `dims` broadcasts to `old`.

    None if it would repeat only some of the dimensions that become one.
    """
    full = (*dims, *[1] * (len(old) - len(dims)))
    result: list[int] = []
    for before, after in _groups(old, new):
        extents = [full[i] for i in before]
        if all(full[i] == old[i] for i in before):
            result += [new[i] for i in after]
        elif all(extent == 1 for extent in extents):
            result += [1] * len(after)
        else:
            return None
    return tuple(result)


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[range, range]]:
    """The least groups of dimensions with equal numbers of items, in both shapes.

    Shapes without items have one group.
    """
    if math.prod(old) == 0:
        yield range(len(old)), range(len(new))
        return
    i = j = 0
    while i < len(old) or j < len(new):
        start, first = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (a := math.prod(old[start:i])) != (b := math.prod(new[first:j])):
            i, j = (i + 1, j) if a < b else (i, j + 1)
        yield range(start, i), range(first, j)
