"""Fuse element-wise operations into the operation that computes their operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal import mean_variance
from nnefc.passes.analysis.epilogues import absorb, only_used_by, producer
from nnefc.passes.base import is_elementwise

_FUSIBLE: Final = (mean_variance.NAME, "matmul")
"""Operations that take an epilogue, in ascending order of preference."""


@dataclass(frozen=True)
class FuseEpilogue:
    """Fuse a product or normalisation with the element-wise operation that alone uses it.

        %0: float32[5,4] = matmul(%x, %w) {transposeA = false, transposeB = true}
        %y: float32[5,4] = fused(%0, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %y: float32[5,4] = fused_matmul(%x, %w, %b) {transposeA = false, transposeB = true,
          expression = ...}

    The result must have the type of the product.  If several operands qualify, a product is
    preferred to a normalisation, then the later operation to the earlier one.
    """

    name: ClassVar[str] = "fuse_epilogue"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        position = {op: i for i, op in enumerate(graph.ops)}
        changed = False
        for op in list(graph.ops):
            if not (op.name == "fused" or is_elementwise(op)):
                continue
            candidates = [v for v in dict.fromkeys(op.inputs) if _is_fusible(graph, v, op)]
            if candidates:
                last = max(candidates, key=lambda v: (_rank(v), position[producer(v)]))
                absorb(graph, op, last, f"fused_{producer(last).name}")
                changed = True
        return changed


def _rank(value: Value) -> int:
    """The preference of the operation that computes `value`: its index in `_FUSIBLE`."""
    return _FUSIBLE.index(producer(value).name)


def _is_fusible(graph: Graph, value: Value, user: Op) -> bool:
    """Whether an operation of `_FUSIBLE` computes `value` and only `user` needs it."""
    fusible = value.op is not None and value.op.name in _FUSIBLE and value.type.dtype.is_float
    return fusible and only_used_by(graph, value, user)
