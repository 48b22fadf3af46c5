"""`Traits`: the facts about an operation that passes use.

No field has a default.  An entry starts from the constant below that describes its kind of
operation, which answers for every field, and replaces the answers that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

from nnefc.ir import DType, Op
from nnefc.ops.core import batch, blocked, cost, permute
from nnefc.ops.core.batch import BatchRule
from nnefc.ops.core.blocked import BlockedRule
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.permute import PermuteRule

Accumulator = Callable[[Op], DType]
"""`accumulator(op)` returns the item type in which `op` sums products."""


class Folding(Enum):
    """Whether passes compute an operation on constants at compile time."""

    LINEAR = auto()
    """Always: the time is linear in the items of operands and results."""
    BOUNDED = auto()
    """Up to a limit: the time may grow with the product of operand and result."""
    NEVER = auto()
    """Never: the result is larger than the operands, which are stored in few bits."""


class ItemTypes(Enum):
    """Whether an operation computes, moves or stores items of 16-bit floats."""

    COMPUTED = auto()
    """Arithmetic, which is done in float32."""
    MOVED = auto()
    """It moves items of any type (if it has an attribute `reduction`, only without one)."""
    STORED = auto()
    """Its operands and results keep their types: they are stored."""


class Sign(Enum):
    """A guarantee about the signs of results; -0.0 counts as negative."""

    NONNEGATIVE = auto()
    """Results are never negative."""
    KEPT = auto()
    """Results are not negative if no operand is."""


class Convolution(Enum):
    """The direction of a convolution of (input, filter, bias)."""

    FORWARD = auto()
    REVERSE = auto()


class Traits(NamedTuple):
    """Facts about an operation.

    `cost`: arithmetic of one execution.
    `batch`: rule for computing the items of a batch separately; None if that is never possible.
    `blocked`: rule for computing on channel-blocked tensors; None if that is never possible.
    `accumulator`: item type of the sums that an expression may be applied to; None if the
    operation has no such sums.
    `folding`: whether it is computed on constants at compile time.
    `item_types`: whether it computes, moves or stores items of 16-bit floats.
    `sign`: a guarantee about the signs of its results; None for no guarantee.
    `permuted`: rule for computing on transposed operands; None if that is not possible.
    `convolution`: the direction of a convolution; None for other operations.
    `slices`: whether operands and results are slices of each other, which are not copied where
    they are contiguous.
    `cheap`: whether it is unary and costs less than writing and reading its result.
    `reads`: how often its kernels read activations, about.
    `aliased`: index of the operand whose memory the results share; None if they have their own.
    """

    cost: Cost
    batch: BatchRule | None
    blocked: BlockedRule | None
    accumulator: Accumulator | None
    folding: Folding
    item_types: ItemTypes
    sign: Sign | None
    permuted: PermuteRule | None
    convolution: Convolution | None
    slices: bool
    cheap: bool
    reads: int
    aliased: int | None


def first_operand(op: Op) -> DType:
    """The item type of the first operand, as accumulator."""
    return op.inputs[0].type.dtype


OPAQUE: Final = Traits(
    cost=cost.FREE,
    batch=None,
    blocked=None,
    accumulator=None,
    folding=Folding.BOUNDED,
    item_types=ItemTypes.COMPUTED,
    sign=None,
    permuted=None,
    convolution=None,
    slices=False,
    cheap=False,
    reads=1,
    aliased=None,
)
"""Operations about which passes know nothing; the base of the constants below."""

COMPOUND: Final = OPAQUE
"""Operations with an `expand`: passes and lowerings see only the operations they expand into."""

ELEMENTWISE: Final = OPAQUE._replace(
    cost=cost.PER_ITEM,
    batch=batch.elementwise,
    blocked=blocked.always,
    folding=Folding.LINEAR,
    permuted=permute.unchanged,
)
"""Operations that compute each item from the items at the same index."""

CHEAP_ELEMENTWISE: Final = ELEMENTWISE._replace(cheap=True)
"""Unary element-wise operations of about one instruction."""

STORAGE: Final = OPAQUE._replace(item_types=ItemTypes.STORED)
"""Inputs, data, and operations that write memory which outlives them."""

MOVEMENT: Final = OPAQUE._replace(
    folding=Folding.LINEAR, item_types=ItemTypes.MOVED, sign=Sign.KEPT
)
"""Operations that only move items."""

VIEW: Final = MOVEMENT._replace(aliased=0)
"""Operations whose results share the memory of the first operand."""

SLICES: Final = MOVEMENT._replace(batch=batch.axis, slices=True)
"""Operations that cut or join tensors along the attribute `axis`."""

INDEXING: Final = MOVEMENT._replace(sign=None)
"""Operations that read or write items at run-time indices."""

REDUCTION: Final = OPAQUE._replace(cost=cost.REDUCTION, batch=batch.axes, folding=Folding.LINEAR)
"""Operations that reduce the dimensions of the attribute `axes`."""

WINDOW: Final = OPAQUE._replace(cost=cost.WINDOW, batch=batch.window(batch.first))
"""Operations on sliding windows of the attribute `size`."""

POOLING: Final = WINDOW._replace(blocked=blocked.pooling, sign=Sign.KEPT)
"""Sums and maxima of sliding windows, which kernels compute on channel blocks, too."""

WINDOW_POSITIONS: Final = OPAQUE._replace(batch=batch.window(batch.every))
"""Operations that read or write sliding windows at run-time positions."""

ACCUMULATION: Final = OPAQUE._replace(accumulator=first_operand)
"""Operations whose sums, in the type of the first operand, an expression may be applied to."""
