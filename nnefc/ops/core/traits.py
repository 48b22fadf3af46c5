"""`Traits`: the facts about an operation that passes ask for.

Every field is required, and None is an answer: a new operation gets no silent default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nnefc.ir import DType, Op
from nnefc.ops.core import batch, blocked
from nnefc.ops.core.batch import BatchRule
from nnefc.ops.core.blocked import BlockedRule
from nnefc.ops.core.cost import FREE, PER_ITEM, Cost

Accumulator = Callable[[Op], DType]
"""`accumulator(op)`: item type in which `op` sums products."""


class Traits(NamedTuple):
    """Facts about an operation.

    `cost`: arithmetic of one execution.
    `batch`: how it separates over the batch; None: it does not.
    `blocked`: when it computes on channel-blocked tensors; None: never.
    `accumulator`: item type of its sums before an expression is applied to them; None: it has no
    sums that an expression could be applied to.
    """

    cost: Cost
    batch: BatchRule | None
    blocked: BlockedRule | None
    accumulator: Accumulator | None


def first_operand(op: Op) -> DType:
    """The accumulator of operations that sum in the item type of their first operand."""
    return op.inputs[0].type.dtype


ELEMENTWISE: Final = Traits(
    cost=PER_ITEM, batch=batch.elementwise, blocked=blocked.always, accumulator=None
)
"""Of operations that compute each item from the items at the same index."""

COMPOUND: Final = Traits(cost=FREE, batch=None, blocked=None, accumulator=None)
"""Of operations with an `expand`: passes and lowerings see the operations that they expand into."""
