"""Binary search for all items of a tensor at once."""

from __future__ import annotations

from collections.abc import Callable

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand


def count_before(
    make: OpBuilder, none: Operand, count: int, is_before: Callable[[Operand], Operand]
) -> Operand:
    """How many of `count` sorted items lie before the searched ones, at most `count` - 1.

    `none`: a zero for each search; `is_before(indices)`: whether the items at `indices` lie
    before the searched ones.
    """
    before = none
    step = (1 << (count - 1).bit_length()) >> 1
    while step:
        # items [0, before) lie before: do `step` more?
        candidate = make("min", make("add", before, step), count - 1)
        goes_on = is_before(make("sub", candidate, 1))
        before = make("select", goes_on, candidate, before)
        step >>= 1
    return before
