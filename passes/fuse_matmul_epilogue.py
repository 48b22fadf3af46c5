"""Let a matrix product apply the element-wise work that follows to what it has just computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.passes.base import is_elementwise
from nnefc.passes.epilogues import absorb, only_used_by, producer


@dataclass(frozen=True)
class FuseMatmulEpilogue:
    """Make one operation of a product and the expression that alone uses it.

        %0: float32[5,4] = matmul(%x, %w) {transposeA = false, transposeB = true}
        %y: float32[5,4] = fused(%0, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %y: float32[5,4] = fused_matmul(%x, %w, %b) {transposeA = false, transposeB = true,
          expression = ...}

    The result must have the type of the product.  Of two products that meet in an expression
    the later one takes it.
    """

    name: ClassVar[str] = "fuse_matmul_epilogue"

    def run(self, graph: Graph) -> bool:
        position = {op: i for i, op in enumerate(graph.ops)}
        changed = False
        for op in list(graph.ops):
            if not (op.name == "fused" or is_elementwise(op)):
                continue
            products = [v for v in dict.fromkeys(op.inputs) if _is_taken(graph, v, op)]
            if products:
                last = max(products, key=lambda v: position[producer(v)])
                absorb(graph, op, last, "fused_matmul")
                changed = True
        return changed


def _is_taken(graph: Graph, value: Value, user: Op) -> bool:
    """Whether `value` is a product that nobody but `user` needs."""
    is_product = value.op is not None and value.op.name == "matmul"
    return is_product and only_used_by(graph, value, user)
