"""Operands that are indices."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.ir import DType, Value


def as_indices(make: OpBuilder, x: Operand) -> Operand:
    """Indices as int32 or int64."""
    return x if x.type.dtype in (DType.INT32, DType.INT64) else make.cast(x, DType.INT64)


def gather(make: OpBuilder, x: Operand, indices: Operand, axis: int) -> Operand:
    """Items at indices along an axis; negative ones count from the end.

    Raises OperatorError for known indices out of range.
    """
    where = as_indices(make, indices)
    is_counted = isinstance(x, Value) and x in make.counted and make.counted[x][0] == axis
    if isinstance(where, KnownTensor) and not is_counted:  # otherwise a run tells where the end is
        where = KnownTensor(_from_front(where.array, x.type.dims[axis]), where.dtype)
    return make("gather", x, where, axis=axis)


def _from_front(indices: Array, extent: int) -> Array:
    """Known indices with negative ones resolved; raises OperatorError if one is out of range."""
    from_end = indices < 0
    resolved: Array = np.where(from_end, indices + extent, indices) if from_end.any() else indices
    if resolved.size and not (resolved >= 0).all() & (resolved < extent).all():
        wrong = indices[(resolved < 0) | (resolved >= extent)].reshape(-1)[0]
        raise OperatorError("argument/gather", f"index {wrong} is outside an extent of {extent}")
    return resolved
