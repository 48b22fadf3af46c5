"""What a graph computes and stores in halves, and why other parts are float32."""

from __future__ import annotations

from collections import Counter

from nnefc.ir import Graph, Op
from nnefc.ops.internal.half_rounding import is_rounding
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.passes.analysis.half_support import (
    ATTENTION,
    PRODUCTS,
    HalfKernels,
    attention_reason,
    float_reason,
    has_groups_in_blocks,
    multiplies_rounded,
)
from nnefc.passes.analysis.known_data import KnownValues

Counts = Counter[tuple[str, str]]
"""Numbers of operations by name and reason; the reason is "" for halves."""


def precisions(graph: Graph, kernels: HalfKernels, block: int) -> Counts:
    """How many products multiply halves, or float32 for a reason.

    `graph`: after `LowerPrecision`.
    """
    known, found = KnownValues(graph), Counts()
    for op in graph.ops:
        if op.name == ATTENTION:
            reason = None if op.attributes.get("rounded") else attention_reason(op, kernels)
        elif multiplies_rounded(op):
            reason = None
        elif op.name in PRODUCTS or is_blocked_convolution(op):
            reason = _reason(op, kernels, block, known)
        else:
            continue
        found[op.name, reason or ""] += 1
    return found


def _reason(op: Op, kernels: HalfKernels, block: int, known: KnownValues) -> str | None:
    if not op.inputs[0].type.dtype.is_half:
        return float_reason(op, kernels, block, known)
    groups = "groups lie within blocks of channels" if has_groups_in_blocks(op) else None
    reason = groups or float_reason(op, kernels, block, known)
    return f"{reason}, operands are stored as {kernels.dtype}"


def copies(graph: Graph) -> Counts:
    """How many results of operations are stored as float32 and copied as halves, and why."""
    found = Counts()
    for op in graph.ops:
        value = op.inputs[0] if is_rounding(op) else None
        if value is None or value.op is None:
            continue
        others = sorted({user.name for user in value.users if user is not op})
        reason = "its kernel writes float32"
        if graph.is_output(value):
            reason = "it is a result"
        elif others:
            reason = f"{' and '.join(others)} read float32"
        found[value.op.name, reason] += 1
    return found
