"""Compute softmax on codes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.known_items import known_items
from nnefc.ops.internal.code_softmax import NAME
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, roundings_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import replace


@dataclass(frozen=True)
class FuseCodeSoftmax:
    """Replace the softmax of codes along the last dimension that is rounded to codes.

        %a: float32[5,8] = dequantize(%x, %s, %z)
        %b: float32[5,8] = softmax(%a) {axes = [1]}
        %y: uint8[5,8] = quantize(%b, %t, %0)

    becomes

        %y: uint8[5,8] = code_softmax(%x) {axes = [1], scale = 0.1, result_scale = 0.004,
          result_zero = 0, rounding = "even"}

    Scales and zero points must be known numbers, and all users must round to codes of 8 bits.  A
    positive factor or divisor of %a is a part of its scale.
    """

    name: ClassVar[str] = "fuse_code_softmax"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name == "softmax" and op.inputs[0] not in known:
                changed |= _fuse(graph, op)
        return changed


def _fuse(graph: Graph, op: Op) -> bool:
    (x, factor), y = _unscaled(op.inputs[0]), op.output
    codes = code_parameters(x.op, "dequantize")
    results = roundings_of(graph, y)
    if codes is None or x.op is None or results is None or not y.type.volume:
        return False
    if not all(each.are_bytes for each in (codes, *results.values())):
        return False
    if tuple(op.attributes["axes"]) != (y.type.rank - 1,):
        return False
    codes = dataclasses.replace(codes, scale=codes.scale * factor)
    for user, result in results.items():
        replace(graph, user, [_inserted(graph, user, x.op.inputs[0], codes, result)])
    return True


def _unscaled(value: Value) -> tuple[Value, float]:
    """(x, factor) if `value` is x times a positive factor, or divided by a positive number, as
    attention has it.
    """
    op = value.op
    if op is None or op.name not in ("mul", "div"):
        return value, 1.0
    for x, other in (op.inputs, op.inputs[::-1]):
        items = known_items(other)
        if items is None or items.size != 1 or x.type != value.type:
            continue
        factor = float(items.item())
        if op.name == "mul" and math.isfinite(factor) and factor > 0:
            return x, factor
        if op.name == "div" and math.isfinite(factor) and factor > 0 and x is op.inputs[0]:
            return x, 1 / factor
    return value, 1.0


def _inserted(
    graph: Graph, user: Op, x: Value, codes: CodeParameters, result: CodeParameters
) -> Value:
    """The codes of the softmax, with the parameters of a result."""
    type_ = user.output.type
    attributes = {
        "axes": (type_.rank - 1,),
        "scale": codes.scale,
        "result_scale": result.scale,
        "result_zero": result.zero,
        "rounding": result.rounding,
    }
    made = Op(NAME, [x], attributes, [type_], [user.output.name], user.location)
    return graph.insert(made, user).output
