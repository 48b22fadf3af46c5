"""Cumulative sums along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType


@operator("tract_core")
def tract_core_cumsum(
    make: OpBuilder, input: Operand, axis: int, exclusive: bool = False, reverse: bool = False
) -> Any:
    """Cumulative sum along an axis, from the end if `reverse`; `exclusive` leaves out the item at
    each index.
    """
    at = normalize_axis(axis, input.type.rank)
    if input.type.dtype is DType.BOOL:
        raise OperatorError(
            "argument/cumsum", "booleans cannot be summed; cast them to an integer type"
        )
    extent = input.type.dims[at]
    sums = running_sum(make, input, at, reverse=reverse)
    if not exclusive or not extent:
        return sums
    dims = tuple(1 if i == at else n for i, n in enumerate(input.type.dims))
    none = KnownTensor(np.zeros(dims, input.type.dtype.numpy), input.type.dtype)
    if reverse:
        pieces = [slice_in_dim(make, sums, at, 1, extent), none]
    else:
        pieces = [none, slice_in_dim(make, sums, at, 0, extent - 1)]
    return make("concat", pieces, axis=at) if extent > 1 else none


@operator("tract_pulse", "pulse_cumsum")
def tract_pulse_cumsum(
    make: OpBuilder, input: Operand, axis: int, exclusive: bool = False, skip: int = 0
) -> Any:
    """`tract_core_cumsum` of a stream whose first `skip` items count as zeros."""
    at = normalize_axis(axis, input.type.rank)
    if skip < 0:
        raise OperatorError("argument/cumsum", f"skip = {skip} is negative")
    if skip:
        shape = tuple(n if i == at else 1 for i, n in enumerate(input.type.dims))
        index = np.arange(shape[at]).reshape(shape)
        zero = KnownTensor(np.zeros((), input.type.dtype.numpy), input.type.dtype)
        input = make("select", KnownTensor(index < skip, DType.BOOL), zero, input)
    return tract_core_cumsum(make, input, at, exclusive)
