"""Select codes instead of the reals that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, converted
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.selections import SELECTIONS, on_codes, selected
from nnefc.passes.op_queries import exchanges_rows, replace

DEQUANTIZE = "dequantize"


@dataclass(frozen=True)
class SinkDequantizations:
    """Move dequantizations behind operations that select items.

        %a: float32[1,8,6,6] = dequantize(%x, %s, %z)
        %y: float32[1,8,3,3] = max_pool(%a) {...}

    becomes

        %1: uint8[1,8,3,3] = max_pool(%x) {...}
        %y: float32[1,8,3,3] = dequantize(%1, %s, %z)

    All operands must have the same known scale and zero point.  Known codes stay where they are,
    except tables of which rows are gathered; so do transposes of matrices, which products absorb.
    """

    name: ClassVar[str] = "sink_dequantizations"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name in SELECTIONS and not exchanges_rows(op):
                codes = common_parameters(op, known)
                changed |= codes is not None and _select_codes(graph, op, codes)
        return changed


def common_parameters(op: Op, known: KnownValues) -> CodeParameters | None:
    """The parameters of all operands of a selection; None if they differ or are not codes."""
    sources = [value.op for value in selected(op)]
    found = {code_parameters(source, DEQUANTIZE) for source in sources}
    if len(found) != 1 or None in found:
        return None
    of_known = all(source is not None and source.inputs[0] in known for source in sources)
    return found.pop() if op.name == "gather" or not of_known else None


def _select_codes(graph: Graph, op: Op, codes: CodeParameters) -> bool:
    """Replace a selection of reals with these parameters by one of codes, if there is one."""
    attributes = on_codes(op, codes)
    if isinstance(attributes, str):
        return False
    operands = [value.op.inputs[0] for value in selected(op) if value.op is not None]
    types = [value.type.with_dtype(codes.dtype) for value in op.outputs]
    others = op.inputs[len(operands) :]
    new = graph.insert(Op(op.name, [*operands, *others], attributes, types, (), op.location), op)
    reals = [converted(graph, DEQUANTIZE, value, codes, op) for value in new.outputs]
    for value, real in zip(op.outputs, reals, strict=True):
        real.name = value.name
    replace(graph, op, reals)
    return True
