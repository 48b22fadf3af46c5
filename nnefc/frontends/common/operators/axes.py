"""Axes that count from the end, and slices along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError
from nnefc.ir import TensorType
from nnefc.ops.standard.slice_pad_tile_gather import Indices
from nnefc.symbolic.integers import statically_equal


def normalize_axis(axis: int, rank: int, *, extra: int = 0) -> int:
    """A non-negative axis for one that may be negative; raises OperatorError if out of range.

    `extra`: by how much the rank of the result exceeds `rank`, for a new axis.
    """
    if not -rank - extra <= axis < rank + extra:
        raise OperatorError("operator/axis", f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank + extra if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int, *, extra: int = 0) -> tuple[int, ...]:
    """`normalize_axis` of each axis."""
    return tuple(normalize_axis(axis, rank, extra=extra) for axis in axes)


def distinct_axes(what: str, axes: Sequence[int], rank: int, *, extra: int = 0) -> tuple[int, ...]:
    """`normalize_axes`; raises OperatorError if two of them are the same."""
    where = normalize_axes(axes, rank, extra=extra)
    if len(set(where)) < len(where):
        raise OperatorError(f"argument/{what}", f"axes = {list(axes)} name a dimension twice")
    return where


def slice_in_dim(
    make: OpBuilder, x: Operand, axis: int, begin: int, end: int, stride: int = 1
) -> Operand:
    """Items begin, begin + stride, ... before `end` along an axis; both bounds lie in the axis.

    With a negative stride, an end of -1 lies before the first item.
    """
    extent = x.type.dims[axis]
    if stride == 1 and statically_equal(begin, 0) and statically_equal(end, extent):
        return x
    count = Indices(begin, end, stride).count
    if isinstance(x, KnownTensor) and not isinstance(x, EmptyTensor):
        where = [slice(None)] * x.type.rank
        where[axis] = slice(begin, end if end >= 0 else None, stride)
        return KnownTensor(x.array[tuple(where)], x.dtype, x.is_extent)
    if count == 0 or isinstance(x, EmptyTensor):
        dims = [*x.type.dims]
        dims[axis] = count
        return EmptyTensor(TensorType(x.type.dtype, tuple(dims)))
    steps = () if stride == 1 else (stride,)
    last = end if end >= 0 else -extent - 1  # -1 would be the last item
    return make("slice", x, axes=(axis,), begin=(begin,), end=(last,), stride=steps)
