"""A scalar expression: what a fused element-wise operation computes for each item.

An op `fused(inputs) {expression = E}` broadcasts its inputs as NNEF does (aligned
at dimension 0, singular extents repeat) and evaluates E for every item of the
output.  Straight-line: operand i < len(inputs) is an input, operand
len(inputs) + j the result of step j.

An op `fused_matmul(A, B, others) {..., expression = E}` first does what its name says after
`fused_`, with the operands and attributes of that operation; E is then applied to the result,
its first input, and to `others`, its further ones.  See `FUSED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnefc.ir.graph import Op
from nnefc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Step:
    """`op` is the name of an element-wise operation, or "literal" (then `value` is set).

    `dtype` is the type of the result.  A `cast` has the type it converts to.
    """

    op: str
    operands: tuple[int, ...]
    dtype: DType
    value: bool | int | float | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    inputs: tuple[DType, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    """Operands that are the outputs; usually one."""


FUSED: Mapping[str, int] = MappingProxyType(
    {
        "fused": 0,
        "fused_matmul": 2,
        "fused_conv": 3,
        "fused_deconv": 3,
        "fused_mean_variance_normalization": 1,
        "attention": 3,
        "fused_views": 0,
    }
)
"""Operations that carry an expression: how many of their operands the operation takes, at least,
whose result is the first input of the expression.  For `fused` there is none, and all operands are
inputs.  What `attention` applies it to are the scores, see `nnefc.ops.internal.attention`; that of
`fused_views` has several results, see `nnefc.ops.internal.fused_views`."""

INTERNAL: frozenset[str] = frozenset(
    {*FUSED, "layout", "shuffle_channels", "mean_variance_normalization", "scan"}
)
"""Operations that front ends and passes make, and no document has."""


def taken(op: Op) -> int:
    """How many operands of one of `FUSED` are not those of its expression."""
    if op.name == "attention":
        return 1 + 2 * len(op.attributes["keys"])
    return FUSED[op.name]


def expression_of(op: Op) -> Expression:
    """What an element-wise operation, or several in one, compute."""
    if op.name == "fused":
        return op.attributes["expression"]
    types = tuple(v.type.dtype for v in op.inputs)
    step = Step(op.name, tuple(range(len(types))), op.output.type.dtype)
    return Expression(types, (step,), (len(types),))
