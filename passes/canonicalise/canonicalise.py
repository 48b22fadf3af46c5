"""Rewrite operations into simpler ones that give the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.tools.build import build, constant
from nnefc.passes.base import replace
from nnefc.passes.canonicalise import fourier, movement, resampling, triangles, windows
from nnefc.passes.canonicalise.rules import RULES, New, Result

__all__ = [
    "Canonicalise",
    "fourier",
    "movement",
    "resampling",
    "triangles",
    "windows",
]


@dataclass(frozen=True)
class Canonicalise:
    """Take out copies, neutral operands and movements that cancel.

        %a: float32[2,3] = copy(%x)
        %b: float32[3,2] = transpose(%a) {axes = [1, 0]}
        %c: float32[2,3] = transpose(%b) {axes = [1, 0]}
        %0: float32[] = constant() {shape = [], value = [1.0]}
        %y: float32[2,3] = mul(%c, %0)

    becomes, but for operations that are dead now, %x alone.  The rules stand in
    `rules` and the modules that are named here.  Each looks at an operation and those before it
    and makes the operation simpler, so one sweep in order, which looks again at what a rule
    made, is enough.
    """

    name: ClassVar[str] = "canonicalise"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in graph.ops:
            changed |= _simplify(graph, op)
        return changed


def _first(op: Op) -> Result:
    """What the first rule that applies to `op` finds."""
    if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
        return None
    found = (rule(op) for rule in RULES.get(op.name, ()))
    return next((f for f in found if f is not None), None)


def _simplify(graph: Graph, op: Op) -> bool:
    changed = False
    while (found := _first(op)) is not None:
        changed = True
        if not isinstance(found, New):
            replace(graph, op, found)
            break
        dtype = op.outputs[0].type.dtype
        inputs = [
            v if isinstance(v, Value) else constant(graph, v, dtype, op) for v in found.inputs
        ]
        made = build(graph, found.name, inputs, found.attributes, before=op, location=op.location)
        replace(graph, op, made.outputs)
        op = made
    return changed
