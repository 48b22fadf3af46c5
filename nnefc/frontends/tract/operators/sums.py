"""Cumulative sums along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.operators.sums import cumulative
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
    return cumulative(make, input, at, exclusive=exclusive, reverse=reverse)


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
