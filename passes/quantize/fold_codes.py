"""Compute the codes of weights that a document has as reals, or in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits, nearest
from nnefc.passes.analysis.integer_support import CODES
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import replace


@dataclass(frozen=True)
class FoldCodes:
    """Compute quantizations of known reals, as training with quantization leaves in documents.

        %w: float32[2] = constant() {shape = [2], value = [0.5, -1.0]}
        %y: int8[2] = quantize(%w, %s, %z)

    becomes, for a scale of 0.5 and a zero point of 0,

        %y: int8[2] = constant() {shape = [2], value = [1, -2]}

    Quotients are rounded to float32, as kernels compute them.  Transposes of known codes are
    computed too, as filters with channels last have them: kernels of codes need known filters.
    """

    name: ClassVar[str] = "fold_codes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed, known = False, KnownValues(graph)
        for op in list(graph.ops):
            if (codes := _codes(op, known)) is not None:
                folded = constant_op(codes, op.output.type, op.location)
                replace(graph, op, [graph.insert(folded, op).output])
                changed = True
        return changed


def _codes(op: Op, known: KnownValues) -> Array | None:
    """The codes that `op` computes from known items; None if it is another operation."""
    match op.name:
        case "quantize":
            return _quantized(op)
        case "transpose" if op.output.type.dtype in CODES and op.inputs[0] in known:
            items = known.items(op.inputs[0])
            assert items is not None
            stored = np.broadcast_to(items, op.inputs[0].type.dims)
            axes = op.attributes["axes"]
            return stored.transpose(*axes, *range(len(axes), stored.ndim))
        case _:
            return None


def _quantized(op: Op) -> Array | None:
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
