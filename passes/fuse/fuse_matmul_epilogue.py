"""Fuse element-wise operations into the matmul or normalisation that computes their operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal import code_matmul
from nnefc.ops.tools.convolution import is_plain_convolution
from nnefc.ops.tools.table import traits_of
from nnefc.passes.fuse.absorb_elementwise import absorb, defining_op, only_used_by, takes_epilogue
from nnefc.passes.op_queries import is_elementwise_or_fused


@dataclass(frozen=True)
class FuseMatmulEpilogue:
    """Fuse a product or normalisation with the element-wise operation that alone uses it.

        %0: float32[5,4] = matmul(%x, %w) {transposeA = false, transposeB = true}
        %y: float32[5,4] = fused(%0, %b) {expression = (%0: float32, %1: float32) {
          %2: float32 = add(%0, %1); %3: float32 = relu(%2); return %3 }}

    becomes

        %y: float32[5,4] = fused_matmul(%x, %w, %b) {transposeA = false, transposeB = true,
          expression = ...}

    The result must have the type of the product; only that of sums of codes may differ.  If several
    operands qualify, a product is preferred to a normalisation, then the later operation to the
    earlier one.
    """

    name: ClassVar[str] = "fuse_matmul_epilogue"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        position = {op: i for i, op in enumerate(graph.ops)}
        changed = False
        for op in list(graph.ops):
            if not is_elementwise_or_fused(op):
                continue
            candidates = [v for v in dict.fromkeys(op.inputs) if _is_fusible(graph, v, op)]
            if candidates:
                last = max(candidates, key=lambda v: (_is_product(v), position[defining_op(v)]))
                absorb(graph, op, last)
                changed = True
        return changed


def _is_product(value: Value) -> bool:
    """Whether the operation that computes `value` multiplies."""
    return traits_of(defining_op(value)).cost.multiply_adds is not None


def _is_fusible(graph: Graph, value: Value, user: Op) -> bool:
    """Whether an operation that takes an epilogue computes `value`, and only `user` needs it.

    Convolutions get their epilogues from `fuse_convolution_epilogue`.
    """
    op = value.op
    if op is None or not takes_epilogue(op) or is_plain_convolution(op):
        return False
    if op.name == code_matmul.NAME:
        same_shape = [v.type.shape for v in user.outputs] == [value.type.shape]
        return same_shape and set(value.users) == {user} and not graph.is_output(value)
    return value.type.dtype.is_float and only_used_by(graph, value, user)
