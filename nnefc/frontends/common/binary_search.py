"""Binary search, of all items of a tensor at once."""

from __future__ import annotations

from collections.abc import Callable

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand


def passed(
    make: OpBuilder, none: Operand, count: int, is_before: Callable[[Operand], Operand]
) -> Operand:
    """How many of `count` sorted items lie before what is searched; all but the last at most.

    `none`: as many zeros as searches; `is_before(indices)`: whether the items there lie before.
    """
    found = none
    step = (1 << (count - 1).bit_length()) >> 1
    while step:
        # items [0, found) are passed: are step more?
        candidate = make("min", make("add", found, step), count - 1)
        goes_on = is_before(make("sub", candidate, 1))
        found = make("select", goes_on, candidate, found)
        step >>= 1
    return found
