"""Cumulative sums along an axis."""

from __future__ import annotations

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand


def running_sum(make: OpBuilder, x: Operand, at: int, *, reverse: bool = False) -> Operand:
    """The inclusive cumulative sum along an axis, from the end if `reverse`.

    A parallel prefix sum (Hillis and Steele 1986): step i adds the sums of the preceding 2^i items.
    """
    extent = x.type.dims[at]
    sums, reach = x, 1
    while reach < extent:
        first, last = (
            slice_in_dim(make, sums, at, 0, extent - reach),
            slice_in_dim(make, sums, at, reach, extent),
        )
        added = make("add", first, last)
        if reverse:
            pieces = [added, slice_in_dim(make, sums, at, extent - reach, extent)]
        else:
            pieces = [slice_in_dim(make, sums, at, 0, reach), added]
        sums = make("concat", pieces, axis=at)
        reach *= 2
    return sums
