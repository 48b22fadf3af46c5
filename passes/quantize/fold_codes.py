"""Compute the codes of weights that a document has as reals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits, nearest
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.op_queries import replace


@dataclass(frozen=True)
class FoldCodes:
    """Compute quantizations of known reals, as training with quantization leaves in documents.

        %w: float32[2] = constant() {shape = [2], value = [0.5, -1.0]}
        %y: int8[2] = quantize(%w, %s, %z)

    becomes, for a scale of 0.5 and a zero point of 0,

        %y: int8[2] = constant() {shape = [2], value = [1, -2]}

    Quotients are rounded to float32, as kernels compute them.
    """

    name: ClassVar[str] = "fold_codes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            if op.name == "quantize" and (codes := _codes(op)) is not None:
                folded = constant_op(codes, op.output.type, op.location)
                replace(graph, op, [graph.insert(folded, op).output])
                changed = True
        return changed


def _codes(op: Op) -> Array | None:
    """The codes of at most 16 bits that `op` computes from known items in float32; else None."""
    real, dtype = op.inputs[0].type.dtype, op.output.type.dtype
    items = [known_items(value) for value in op.inputs]
    known = [x.astype(np.float32) for x in items if x is not None]
    if real is not DType.FLOAT32 or dtype.itemsize > 2 or len(known) < len(items):
        return None
    x, scale, zero = align(np.broadcast_to(known[0], op.output.type.dims), *known[1:])
    with np.errstate(all="ignore"):
        codes = nearest(x / scale, op.attributes["rounding"]) + zero
    return None if np.isnan(codes).any() else np.clip(codes, *code_limits(dtype))
