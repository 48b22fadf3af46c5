"""Streaming operators (tract_pulse), computed for the whole stream at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import take_room
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.operators.movement import concat
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType


@operator("tract_pulse", "pulse_delay", "tract_core_delay")
def tract_pulse_delay(
    make: OpBuilder, input: Operand, axis: int, delay: int, overlap: int = 0
) -> Any:
    """The input delayed by `delay` items, preceded by `overlap` earlier ones; zeros before
    the first one.
    """
    at = normalize_axis(axis, input.type.rank)
    dims = [*input.type.dims]
    extent, dims[at] = dims[at], delay + overlap
    if delay < 0 or overlap < 0:
        message = f"delay = {delay} and overlap = {overlap} must not be negative"
        raise OperatorError("argument/delay", message)
    take_room(make.budget, *dims)
    zeros = KnownTensor(np.zeros(dims, input.type.dtype.numpy), input.type.dtype)
    return slice_in_dim(make, concat(make, (zeros, input), at), at, 0, extent + overlap)


@operator("tract_pulse", "pulse_mask")
def tract_pulse_mask(
    make: OpBuilder, input: Operand, axis: int, begin: int, end: int, value: float = 0.0
) -> Any:
    """The input with `value` at indices outside [begin, end) along an axis."""
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
    """The stream with padding at indices outside [begin_input, end_input) along an axis."""
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
            "argument/pad", f"the input from {begin_input} to {end_input} has no items"
        )
    inside = slice_in_dim(make, input, at, begin, end)
    padding = tuple((begin, extent - end) if i == at else (0, 0) for i in range(input.type.rank))
    return make("pad", inside, padding=padding, border="replicate", value=0.0)


def _outside(make: OpBuilder, x: Operand, axis: int, begin: int, end: int, value: float) -> Operand:
    """`x` with `value` at indices outside [begin, end) along an axis."""
    at = normalize_axis(axis, x.type.rank)
    shape = [1] * x.type.rank
    shape[at] = x.type.dims[at]
    index = np.arange(shape[at]).reshape(shape)
    inside = KnownTensor((index >= begin) & (index < end), DType.BOOL)
    return make("select", inside, x, value)
