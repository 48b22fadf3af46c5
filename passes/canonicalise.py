"""Rewrite operations into simpler ones that give the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.ops.build import build
from nnefc.passes.base import replace
from nnefc.passes.canonical_rules import RULES, New


@dataclass(frozen=True)
class Canonicalise:
    """Take out copies, neutral operands and movements that cancel.

        %a: float32[2,3] = copy(%x)
        %b: float32[3,2] = transpose(%a) {axes = [1, 0]}
        %c: float32[2,3] = transpose(%b) {axes = [1, 0]}
        %0: float32[] = constant() {shape = [], value = [1.0]}
        %y: float32[2,3] = mul(%c, %0)

    becomes, but for operations that are dead now, %x alone.  The rules stand in
    `canonical_rules`.  Each looks at an operation and those before it and makes the operation
    simpler, so one sweep in order, which looks again at what a rule made, is enough.
    """

    name: ClassVar[str] = "canonicalise"

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in graph.ops:
            changed |= _simplify(graph, op)
        return changed


def _simplify(graph: Graph, op: Op) -> bool:
    changed = False
    while (rule := RULES.get(op.name)) is not None:
        if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
            break
        found = rule(op)
        if found is None:
            break
        changed = True
        if not isinstance(found, New):
            replace(graph, op, found)
            break
        made = build(
            graph, found.name, found.inputs, found.attributes, before=op, location=op.location
        )
        replace(graph, op, made.outputs)
        op = made
    return changed
