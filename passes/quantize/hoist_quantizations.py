"""Quantize before items are moved and pooled, not behind that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, converted
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.selections import EXTREMES, PARTS, SELECTIONS, on_codes
from nnefc.passes.op_queries import replace

QUANTIZE = "quantize"


@dataclass(frozen=True)
class HoistQuantizations:
    """Move quantizations before operations that select items, and that nothing else reads.

        %a: float32[1,8,3,3] = max_pool(%x) {...}
        %y: uint8[1,8,3,3] = quantize(%a, %s, %z)

    becomes

        %1: uint8[1,8,6,6] = quantize(%x, %s, %z)
        %y: uint8[1,8,3,3] = max_pool(%1) {...}

    The operation that computes %x then rounds to codes before it stores its result.  Slices and
    reductions stay, since more items would be quantized.  Scales and zero points must be known.
    """

    name: ClassVar[str] = "hoist_quantizations"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        moved = SELECTIONS.difference(PARTS, EXTREMES)
        for op in list(graph.reversed_ops):
            if op.name in moved and not all(v in known for v in op.inputs):
                codes = _parameters_of_users(graph, op.output)
                changed |= codes is not None and _quantize_operands(graph, op, codes)
        return changed


def _parameters_of_users(graph: Graph, value: Value) -> CodeParameters | None:
    """The parameters with which all users quantize a value; None if they differ or do not."""
    if graph.is_output(value) or not value.users:
        return None
    found = {code_parameters(user, QUANTIZE) for user in value.users}
    return found.pop() if len(found) == 1 else None


def _quantize_operands(graph: Graph, op: Op, codes: CodeParameters) -> bool:
    """Quantize the operands of a selection instead of its result, if it computes on codes."""
    attributes = on_codes(op, codes)
    if isinstance(attributes, str):
        return False
    operands = [converted(graph, QUANTIZE, value, codes, op) for value in op.inputs]
    type_ = op.output.type.with_dtype(codes.dtype)
    new = graph.insert(Op(op.name, operands, attributes, [type_], (), op.location), op)
    for user in list(op.output.users):
        new.output.name = user.output.name
        replace(graph, user, [new.output])
    graph.erase(op)
    return True
