"""Remove operations whose results are not used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph
from nnefc.passes.op_queries import is_pure


@dataclass(frozen=True)
class EliminateDeadCode:
    """Remove operations without side effects whose outputs are unused.

        graph net(%x: float32[4]) -> (y = %y) {
          %z: float32[4] = exp(%x)
          %y: float32[4] = neg(%x)
        }

    becomes

        graph net(%x: float32[4]) -> (y = %y) {
          %y: float32[4] = neg(%x)
        }

    `update`, unknown operations and all of `graph.variables` stay.
    """

    name: ClassVar[str] = "eliminate_dead_code"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        outputs = set(graph.outputs)
        before = len(graph)
        for op in graph.reversed_ops:
            if is_pure(op) and not any(v.users or v in outputs for v in op.outputs):
                graph.erase(op)
        return len(graph) != before
