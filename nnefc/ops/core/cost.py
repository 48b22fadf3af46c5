"""What one execution of an operation costs in arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from nnefc.ir import Op

Count = Callable[[Op], int]
"""A number for an operation whose shapes are known."""


class Cost(NamedTuple):
    """Arithmetic of one execution; None: there is none of the kind.

    `multiply_adds`: those of dense products, border taps included, as is usual for networks.
    `other`: all other floating-point operations.  A step of an element-wise expression is one per
    item (`exp`, too), and so is every item that a window or a reduction visits.  Moving items is
    none.
    """

    multiply_adds: Count | None
    other: Count | None


def output_items(op: Op) -> int:
    """Items of the first result."""
    return op.outputs[0].type.volume


def input_items(op: Op) -> int:
    """Items of the first operand."""
    return op.inputs[0].type.volume


def window_items(op: Op) -> int:
    """Items that the windows of the attribute `size` visit."""
    return math.prod(op.attributes["size"]) * output_items(op)


def expression_steps(op: Op) -> int:
    """Steps of the attribute `expression` that compute."""
    return sum(step.op != "literal" for step in op.attributes["expression"].steps)


FREE: Final = Cost(multiply_adds=None, other=None)
"""Of operations that only move items."""
PER_ITEM: Final = Cost(multiply_adds=None, other=output_items)
WINDOW: Final = Cost(multiply_adds=None, other=window_items)
REDUCTION: Final = Cost(multiply_adds=None, other=input_items)
