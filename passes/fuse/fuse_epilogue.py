"""Fuse element-wise operations into the operation that computes their operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal import mean_variance
from nnefc.passes.analysis.epilogues import absorb, only_used_by, producer
from nnefc.passes.base import is_elementwise

_TAKERS: Final = (mean_variance.NAME, "matmul")
"""Operations that take an expression; of two that meet in one, the later in this order."""


@dataclass(frozen=True)
class FuseEpilogue:
    """Make one operation of a product or normalisation and the expression that alone uses it.

        %0: float32[5,4] = matmul(%x, %w) {transposeA = false, transposeB = true}
        %y: float32[5,4] = fused(%0, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %y: float32[5,4] = fused_matmul(%x, %w, %b) {transposeA = false, transposeB = true,
          expression = ...}

    The result must have the type of the product.  Of two products that meet in an expression
    the later one takes it, and a product rather than a normalisation.
    """

    name: ClassVar[str] = "fuse_epilogue"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        position = {op: i for i, op in enumerate(graph.ops)}
        changed = False
        for op in list(graph.ops):
            if not (op.name == "fused" or is_elementwise(op)):
                continue
            found = [v for v in dict.fromkeys(op.inputs) if _is_taken(graph, v, op)]
            if found:
                last = max(found, key=lambda v: (_rank(v), position[producer(v)]))
                absorb(graph, op, last, f"fused_{producer(last).name}")
                changed = True
        return changed


def _rank(value: Value) -> int:
    """Where the operation that computes `value` is among `_TAKERS`."""
    return _TAKERS.index(producer(value).name)


def _is_taken(graph: Graph, value: Value, user: Op) -> bool:
    """Whether `value` is the result of one of `_TAKERS` that nobody but `user` needs."""
    taken = value.op is not None and value.op.name in _TAKERS and value.type.dtype.is_float
    return taken and only_used_by(graph, value, user)
