"""Sum codes instead of the reals that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op
from nnefc.ops.extended.integer_products import EXACT
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal.code_sums import PLAIN
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, scaled
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import replace

ON_CODES = {spec.name: name for name, spec in PLAIN.items()}
"""The operations on codes, by the names of those on reals."""


@dataclass(frozen=True)
class SumCodes:
    """Replace sums and means of dequantized tensors by those of codes less their zero point.

        %a: float32[1,8,6,6] = dequantize(%x, %s, %z)
        %y: float32[1,8,1,1] = sum_reduce(%a) {axes = [2, 3], normalize = true}

    becomes

        %1: float32[1,8,1,1] = code_sum_reduce(%x) {axes = [2, 3], normalize = true, zero = 3}
        %y: float32[1,8,1,1] = mul(%1, %s)

    The codes must have one known scale and zero point, and their sums be exact in float32.
    """

    name: ClassVar[str] = "sum_codes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name not in ON_CODES or op.inputs[0] in known:
                continue
            codes = code_parameters(op.inputs[0].op, "dequantize")
            if codes is not None and float_reason(op, codes) is None:
                _sum_codes(graph, op, codes)
                changed = True
        return changed


def float_reason(op: Op, codes: CodeParameters) -> str | None:
    """Why a sum of codes is computed in floats; None if it need not be."""
    dims, attributes = op.inputs[0].type.dims, op.attributes
    if op.name == "box":
        terms = math.prod(attributes["size"])
    else:
        axes: tuple[int, ...] = attributes["axes"]
        terms = math.prod(dims[axis] for axis in axes)
    low, high = code_limits(codes.dtype)
    if terms * max(high - codes.zero, codes.zero - low) > EXACT:
        return "sums are not exact in float32"
    return None if op.output.type.volume else "there are no results"


def _sum_codes(graph: Graph, op: Op, codes: CodeParameters) -> None:
    source = op.inputs[0].op
    assert source is not None, "it dequantizes"
    attributes = {**op.attributes, "zero": codes.zero}
    made = Op(ON_CODES[op.name], source.inputs[:1], attributes, [op.output.type], (), op.location)
    real = scaled(graph, graph.insert(made, op).output, codes.scale, op)
    real.name = op.output.name
    replace(graph, op, [real])
