"""Arithmetic cost of one execution of an operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from nnefc.ir import Op

Count = Callable[[Op], int]
"""`count(op)` returns a number for an operation whose shapes are known."""


class Cost(NamedTuple):
    """Arithmetic of one execution; None means none of that kind.

    `multiply_adds`: multiply-adds of dense products, with border taps, as usual for networks.
    `other`: all other floating-point operations.  A step of an element-wise expression counts one
    per item (`exp`, too), and so does every item that a window or a reduction visits.  Moving items
    counts nothing.
    """

    multiply_adds: Count | None
    other: Count | None


def output_items(op: Op) -> int:
    """Number of items of the first result."""
    return op.outputs[0].type.volume


def input_items(op: Op) -> int:
    """Number of items of the first operand."""
    return op.inputs[0].type.volume


def window_items(op: Op) -> int:
    """Number of items that windows of the attribute `size` visit, over all positions."""
    return math.prod(op.attributes["size"]) * output_items(op)


def expression_steps(op: Op) -> int:
    """Number of steps of the attribute `expression`, without literals."""
    return sum(step.op != "literal" for step in op.attributes["expression"].steps)


FREE: Final = Cost(multiply_adds=None, other=None)
"""Cost of operations that only move items."""
PER_ITEM: Final = Cost(multiply_adds=None, other=output_items)
"""One operation per item of the result."""
WINDOW: Final = Cost(multiply_adds=None, other=window_items)
"""One operation per item that a window visits."""
REDUCTION: Final = Cost(multiply_adds=None, other=input_items)
"""One operation per item of the operand."""
