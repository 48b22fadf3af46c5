"""Keep the products of codes for which there is a kernel; others are expanded into floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.ops.internal.code_matmul import NAME
from nnefc.passes.analysis.integer_support import float_reason


@dataclass(frozen=True)
class ChooseCodeProducts:
    """Rename products of codes that a kernel computes.

        %y: int32[2,3] = integer_matmul(%x, %w, %x_zero, %w_zero) {...}

    becomes

        %y: int32[2,3] = code_matmul(%x, %w, %x_zero, %w_zero) {...}
    """

    name: ClassVar[str] = "choose_code_products"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            if op.name == "integer_matmul" and float_reason(op) is None:
                types, names = [op.output.type], [op.output.name]
                chosen = Op(NAME, op.inputs, op.attributes, types, names, op.location)
                graph.insert(chosen, op)
                graph.replace_value(op.output, chosen.output)
                graph.erase(op)
                changed = True
        return changed
