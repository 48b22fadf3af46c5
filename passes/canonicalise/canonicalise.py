"""Rewrite operations into simpler ones with bit-identical results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.tools.build import build, constant
from nnefc.passes.canonicalise import fourier, movement, resampling, triangles, views, windows
from nnefc.passes.canonicalise.rules import RULES, NewOp, Result
from nnefc.passes.op_queries import replace

__all__ = [
    "Canonicalise",
    "fourier",
    "movement",
    "resampling",
    "triangles",
    "views",
    "windows",
]


@dataclass(frozen=True)
class Canonicalise:
    """Remove copies, neutral operands, and data movement that cancels.

        %a: float32[2,3] = copy(%x)
        %b: float32[3,2] = transpose(%a) {axes = [1, 0]}
        %c: float32[2,3] = transpose(%b) {axes = [1, 0]}
        %0: float32[] = constant() {shape = [], value = [1.0]}
        %y: float32[2,3] = mul(%c, %0)

    becomes %x, except for dead operations.  The rules are in `rules` and the other modules of this
    package.  A rule reads an operation and its producers, and returns a simpler operation.  One
    sweep in order is therefore enough, if new operations are simplified again.
    """

    name: ClassVar[str] = "canonicalise"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in graph.ops:
            changed |= _simplify(graph, op)
        return changed


def _first(op: Op) -> Result:
    """The result of the first rule that applies to `op`; None if none does."""
    if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
        return None
    results = (rule(op) for rule in RULES.get(op.name, ()))
    return next((result for result in results if result is not None), None)


def _simplify(graph: Graph, op: Op) -> bool:
    """Apply rules to `op`, and to the operation that replaces it, until none applies."""
    changed = False
    while (result := _first(op)) is not None:
        changed = True
        if not isinstance(result, NewOp):
            replace(graph, op, result)
            break
        new = _inserted(graph, op, result)
        replace(graph, op, new.outputs)
        op = new
    return changed


def _inserted(graph: Graph, op: Op, result: NewOp) -> Op:
    """The operation `result`, inserted before `op` with its operands."""
    inputs: list[Value] = []
    for each in result.inputs:
        if isinstance(each, NewOp):
            inputs.append(_inserted(graph, op, each).output)
        elif isinstance(each, Value):
            inputs.append(each)
        else:
            inputs.append(constant(graph, each, op.outputs[0].type.dtype, op))
    return build(graph, result.name, inputs, result.attributes, before=op, location=op.location)
