"""`Traits`: the facts about an operation that passes and lowering use.

No field has a default.  An entry starts from the constant below that describes its kind of
operation, which answers for every field, and replaces the answers that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

from nnefc.ir import DType, Op
from nnefc.ops.core import batch_rules, blocked_rules, cost, permute_rules, strided_rules
from nnefc.ops.core.affine_rules import AffineRule
from nnefc.ops.core.batch_rules import BatchRule, ResizeRule
from nnefc.ops.core.blocked_rules import BlockedRule
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.permute_rules import PermuteRule
from nnefc.ops.core.strided_rules import StridedRule

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


class Slices(Enum):
    """Which tensors of an operation are slices of another one."""

    OPERANDS = auto()
    """The operands follow each other in the result along the attribute `axis`."""
    RESULTS = auto()
    """The results follow each other in the operand along the attribute `axis`."""
    RANGES = auto()
    """The result is a range of the operand by the attributes `axes`, `begin`, `end`, `stride`."""


class Convolution(Enum):
    """The direction of a convolution of (input, filter, bias)."""

    FORWARD = auto()
    REVERSE = auto()


class Traits(NamedTuple):
    """Facts about an operation.

    `cost`: arithmetic of one execution.
    `batch`: rule for computing the items of a batch separately; None if that is never possible.
    `resized`: rule for the attributes for another batch; None if none depends on the batch.
    `blocked`: rule for computing on channel-blocked tensors; None if that is never possible.
    `prefers_blocked`: whether blocked kernels are so much faster that layout conversions pay off
    for this operation alone.
    `accumulator`: item type of the sums that an expression may be applied to; None if the
    operation has no such sums.
    `with_expression`: name of the operation that also applies an expression to the result; None if
    there is none.
    `affine`: rule for its map of one operand if the other is known; None if that is never affine.
    `folding`: whether it is computed on constants at compile time.
    `item_types`: whether it computes, moves or stores items of 16-bit floats.
    `sign`: a guarantee about the signs of its results; None for no guarantee.
    `permuted`: rule for computing on transposed operands; None if that is not possible.
    `strided`: rule for its results as strided views of the first operand; None if they are not.
    `convolution`: the direction of a convolution; None for other operations.
    `data`: whether its result is stored data, which no kernel computes.
    `view`: whether it only changes the shape of its only operand: items and their order stay.
    `slices`: which tensors are slices of another one, which are not copied where they are
    contiguous; None without slices.
    `cheap`: whether it is unary and costs less than writing and reading its result.
    `reads`: how often its kernels read activations, about.
    `aliased`: index of the operand whose memory the results share; None if they have their own.
    """

    cost: Cost
    batch: BatchRule | None
    resized: ResizeRule | None
    blocked: BlockedRule | None
    prefers_blocked: bool
    accumulator: Accumulator | None
    with_expression: str | None
    affine: AffineRule | None
    folding: Folding
    item_types: ItemTypes
    sign: Sign | None
    permuted: PermuteRule | None
    strided: StridedRule | None
    convolution: Convolution | None
    data: bool
    view: bool
    slices: Slices | None
    cheap: bool
    reads: int
    aliased: int | None


def type_of_sums(op: Op) -> DType:
    """The accumulator for the item type of the first operand: its own, and float32 for 16 bits."""
    dtype = op.inputs[0].type.dtype
    return DType.FLOAT32 if dtype.is_half else dtype


OPAQUE: Final = Traits(
    cost=cost.FREE,
    batch=None,
    resized=None,
    blocked=None,
    prefers_blocked=False,
    accumulator=None,
    with_expression=None,
    affine=None,
    folding=Folding.BOUNDED,
    item_types=ItemTypes.COMPUTED,
    sign=None,
    permuted=None,
    strided=None,
    convolution=None,
    data=False,
    view=False,
    slices=None,
    cheap=False,
    reads=1,
    aliased=None,
)
"""Operations about which passes know nothing; the base of the constants below."""

COMPOUND: Final = OPAQUE
"""Operations with an `expand`: passes and lowerings see only the operations they expand into."""

ELEMENTWISE: Final = OPAQUE._replace(
    cost=cost.PER_ITEM,
    batch=batch_rules.elementwise,
    blocked=blocked_rules.any_layout,
    folding=Folding.LINEAR,
    permuted=permute_rules.unchanged,
)
"""Operations that compute each item from the items at the same index."""

CHEAP_ELEMENTWISE: Final = ELEMENTWISE._replace(cheap=True)
"""Unary element-wise operations of about one instruction."""

STORAGE: Final = OPAQUE._replace(item_types=ItemTypes.STORED)
"""Inputs, data, and operations that write memory which outlives them."""

DATA: Final = STORAGE._replace(data=True)
"""Data that is stored with the model."""

MOVEMENT: Final = OPAQUE._replace(
    folding=Folding.LINEAR, item_types=ItemTypes.MOVED, sign=Sign.KEPT
)
"""Operations that only move items."""

VIEW: Final = MOVEMENT._replace(strided=strided_rules.RESHAPE, view=True, aliased=0)
"""Operations that only change the shape, so the result shares the memory of the operand."""

JOIN: Final = MOVEMENT._replace(batch=batch_rules.axis, slices=Slices.OPERANDS)
"""Operations that join their operands along the attribute `axis`."""

CUT: Final = MOVEMENT._replace(batch=batch_rules.axis, slices=Slices.RESULTS)
"""Operations that cut their operand along the attribute `axis`."""

INDEXING: Final = MOVEMENT._replace(sign=None)
"""Operations that read or write items at run-time indices."""

REDUCTION: Final = OPAQUE._replace(
    cost=cost.REDUCTION, batch=batch_rules.axes, folding=Folding.LINEAR
)
"""Operations that reduce the dimensions of the attribute `axes`."""

WINDOW: Final = OPAQUE._replace(cost=cost.WINDOW, batch=batch_rules.window(batch_rules.first))
"""Operations on sliding windows of the attribute `size`."""

POOLING: Final = WINDOW._replace(
    blocked=blocked_rules.pooling, prefers_blocked=True, sign=Sign.KEPT
)
"""Sums and maxima of sliding windows, which kernels compute on channel blocks, too."""

WINDOW_POSITIONS: Final = OPAQUE._replace(batch=batch_rules.window(batch_rules.every))
"""Operations that read or write sliding windows at run-time positions."""

ACCUMULATION: Final = OPAQUE._replace(accumulator=type_of_sums)
"""Operations whose sums, of `type_of_sums`, an expression may be applied to."""
