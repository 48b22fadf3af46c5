"""Compute once what is computed twice."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.ir.text import print_attribute
from nnefc.ops.table import operations
from nnefc.passes.base import is_pure, replace


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """Replace an operation by an earlier one with the same operands and attributes.

        %a: float32[4] = exp(%x)
        %b: float32[4] = exp(%x)
        %y: float32[4] = add(%a, %b)

    becomes

        %a: float32[4] = exp(%x)
        %y: float32[4] = add(%a, %a)

    The order of the operands of commutative operations does not matter.
    """

    name: ClassVar[str] = "eliminate_common_subexpressions"

    def run(self, graph: Graph) -> bool:
        first: dict[Hashable, Op] = {}
        changed = False
        for op in graph.ops:
            if not is_pure(op):
                continue
            twin = first.setdefault(_key(op), op)
            if twin is not op:
                replace(graph, op, twin.outputs)
                changed = True
        return changed


def _key(op: Op) -> Hashable:
    operands = [id(v) for v in op.inputs]
    spec = operations().get(op.name)
    if spec is not None and spec.commutative:
        operands.sort()
    # the text of an attribute tells 0.0 from -0.0, 1 from 1.0 and true, as == does not
    attributes = sorted((k, print_attribute(v)) for k, v in op.attributes.items())
    return op.name, tuple(operands), tuple(v.type for v in op.outputs), tuple(attributes)
