"""Operators of models that take a stream piece by piece, for a stream that is there as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import take_room
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.operators.movement import concat, normalize_axis, slice_in_dim
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType


@operator("tract_pulse", "pulse_delay", "tract_core_delay")
def tract_pulse_delay(
    make: OpBuilder, input: Operand, axis: int, delay: int, overlap: int = 0
) -> Any:
    """What came `delay` items before, and `overlap` items more of it; zeros before the first."""
    at = normalize_axis(axis, input.type.rank)
    dims = [*input.type.dims]
    extent, dims[at] = dims[at], delay + overlap
    if delay < 0 or overlap < 0:
        raise OperatorError("argument/delay", f"delay = {delay}, overlap = {overlap}")
    take_room(make.budget, *dims)
    zeros = KnownTensor(np.zeros(dims, input.type.dtype.numpy), input.type.dtype)
    return slice_in_dim(make, concat(make, (zeros, input), at), at, 0, extent + overlap)


@operator("tract_pulse", "pulse_mask")
def tract_pulse_mask(
    make: OpBuilder, input: Operand, axis: int, begin: int, end: int, value: float = 0.0
) -> Any:
    """`value` in the place of what is not between `begin` and `end`."""
    return _outside(make, input, axis, begin, end, value)


@operator("tract_pulse", "pulse_pulse_pad", "tract_pulse_pad")
def tract_pulse_pulse_pad(
    make: OpBuilder,
    input: Operand,
    axis: int,
    before: int,
    after: int,
    begin_input: int,
    end_input: int,
    border: str = "constant",
    value: float = 0.0,
    overlap: int = 0,
) -> Any:
    """Borders in the place of items that are before or behind the input within a stream."""
    del before, after, overlap
    at = normalize_axis(axis, input.type.rank)
    extent = input.type.dims[at]
    begin, end = max(begin_input, 0), min(end_input, extent)
    if border == "constant":
        return _outside(make, input, axis, begin, end, value)
    if border not in ("replicated", "replicate", "edge"):
        raise OperatorError(
            "argument/pad", f"border = '{border}'; 'constant' and 'replicated' are possible"
        )
    if begin >= end:
        raise OperatorError(
            "argument/pad", f"there is nothing between {begin_input} and {end_input}"
        )
    inside = slice_in_dim(make, input, at, begin, end)
    padding = tuple((begin, extent - end) if i == at else (0, 0) for i in range(input.type.rank))
    return make("pad", inside, padding=padding, border="replicate", value=0.0)


def _outside(make: OpBuilder, x: Operand, axis: int, begin: int, end: int, value: float) -> Operand:
    at = normalize_axis(axis, x.type.rank)
    shape = [1] * x.type.rank
    shape[at] = x.type.dims[at]
    places = np.arange(shape[at]).reshape(shape)
    inside = KnownTensor((places >= begin) & (places < end), DType.BOOL)
    return make("select", inside, x, value)
