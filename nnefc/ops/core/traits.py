"""`Traits`: the facts about an operation that passes use.

Every field is required, and None is a valid answer, so a new operation gets no silent default.
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
"""`accumulator(op)` returns the item type in which `op` sums products."""


class Traits(NamedTuple):
    """Facts about an operation.

    `cost`: arithmetic of one execution.
    `batch`: rule for computing the items of a batch separately; None if that is never possible.
    `blocked`: rule for computing on channel-blocked tensors; None if that is never possible.
    `accumulator`: item type of the sums that an expression may be applied to; None if the
    operation has no such sums.
    """

    cost: Cost
    batch: BatchRule | None
    blocked: BlockedRule | None
    accumulator: Accumulator | None


def first_operand(op: Op) -> DType:
    """The item type of the first operand, as accumulator."""
    return op.inputs[0].type.dtype


ELEMENTWISE: Final = Traits(
    cost=PER_ITEM, batch=batch.elementwise, blocked=blocked.always, accumulator=None
)
"""Operations that compute each item from the items at the same index."""

COMPOUND: Final = Traits(cost=FREE, batch=None, blocked=None, accumulator=None)
"""Operations with an `expand`: passes and lowerings see only the operations they expand into."""
