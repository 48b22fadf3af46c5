"""Remove quantizations of tensors that were codes with the same scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.known_items import known_items
from nnefc.passes.op_queries import replace
from nnefc.passes.quantize.moved_codes import source_of

LARGEST_SCALE: Final = 1e30
"""Codes times a scale up to this one are finite in float32."""


@dataclass(frozen=True)
class CancelQuantizations:
    """Move codes instead of the reals that they stand for.

        %a: float32[2,3] = dequantize(%x, %s, %z)
        %b: float32[3,2] = transpose(%a) {axes = [1, 0]}
        %y: uint8[3,2] = quantize(%b, %s, %z)

    becomes, but for operations that are dead now,

        %y: uint8[3,2] = transpose(%x) {axes = [1, 0]}

    Quantization gives the same codes back: the quotient of (code - zero point) scale by the scale
    differs from a whole number of at most 17 bits by less than 1/2.
    """

    name: ClassVar[str] = "cancel_quantizations"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            if op.name == "quantize" and (codes := _moved_codes(graph, op)) is not None:
                replace(graph, op, [codes])
                changed = True
        return changed


def _moved_codes(graph: Graph, op: Op) -> Value | None:
    """The codes that `op` restores, moved as the reals are; None if it computes others."""
    source = source_of(op.inputs[0])
    if source is None or not _are_same(source.dequantize, op):
        return None
    return source.codes(graph, op)


def _are_same(dequantize: Op, quantize: Op) -> bool:
    """Whether both have the same type of codes, the same scale and the same zero point."""
    codes = quantize.output.type.dtype
    if dequantize.inputs[0].type.dtype is not codes or codes.itemsize > 2:
        return False
    scale = known_items(quantize.inputs[1])
    if scale is None or scale.size != 1 or float(scale.reshape(())) > LARGEST_SCALE:
        return False
    return all(map(_are_equal, dequantize.inputs[1:], quantize.inputs[1:]))


def _are_equal(a: Value, b: Value) -> bool:
    """Whether two tensors are one, or the same known number."""
    if a is b:
        return True
    left, right = known_items(a), known_items(b)
    if left is None or right is None or left.size != 1 or right.size != 1:
        return False
    return bool(np.equal(left.reshape(()), right.reshape(())))
