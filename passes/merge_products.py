"""Products of one row with several matrices, in loops: one product with all of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.build import build
from nnefc.passes.base import is_constant, replace
from nnefc.passes.loop import Loop, loops


@dataclass(frozen=True)
class MergeProducts:
    """Let turns multiply a row with matrices that all of them share in one go.

        %i: float32[1,8] = matmul(%h, %u) {transposeA = false, transposeB = true}
        %f: float32[1,8] = matmul(%h, %v) {transposeA = false, transposeB = true}

    becomes, in the body of a loop that is given %w, the concatenation of %u and %v,

        %0: float32[1,16] = matmul(%h, %w) {transposeA = false, transposeB = true}
        %i: float32[1,8], %f: float32[1,8] = split(%0) {axis = 1, ratios = [8, 8]}

    The gates of recurrent networks are such products.  The split costs nothing, as the parts of a
    row lie one after the other, and threads share one long product rather than several short ones.
    """

    name: ClassVar[str] = "merge_products"

    def run(self, graph: Graph) -> bool:
        changed = False
        for loop in loops(graph):
            siblings = [ops for ops in _siblings(loop).values() if len(ops) > 1]
            for ops in siblings:
                _merge(loop, ops)
            if siblings:
                loop.write()
                changed = True
        return changed


def _siblings(loop: Loop) -> dict[Hashable, list[Op]]:
    """Products of one row with shared matrices, by what has to be equal for them to be merged."""
    shared = {operand.inner for operand in loop.shared}
    found: dict[Hashable, list[Op]] = {}
    for op in loop.body.ops:
        if op.name != "matmul" or math.prod(op.output.type.dims[:-1]) > 1:
            continue
        row, matrix = op.inputs
        if matrix in shared or is_constant(matrix):
            flags = op.attributes["transposeA"], op.attributes["transposeB"]
            found.setdefault((row, matrix.type.dims[:-2], *flags), []).append(op)
    return found


def _merge(loop: Loop, ops: Sequence[Op]) -> None:
    first = ops[0]
    flags, rank = first.attributes, first.output.type.rank
    matrices = [_outside(loop, op.inputs[1]) for op in ops]
    axis = rank - (2 if flags["transposeB"] else 1)
    joined = build(loop.graph, "concat", matrices, {"axis": axis}, before=loop.op).output
    product = build(
        loop.body,
        "matmul",
        [first.inputs[0], loop.share(joined)],
        flags,
        before=first,
        location=first.location,
    )
    sizes = tuple(op.output.type.dims[-1] for op in ops)
    parts = build(
        loop.body,
        "split",
        [product.output],
        {"axis": rank - 1, "ratios": sizes},
        before=first,
        location=first.location,
    )
    for op, part in zip(ops, parts.outputs, strict=True):
        loop.replace(op.output, part)
        replace(loop.body, op, [part])


def _outside(loop: Loop, matrix: Value) -> Value:
    """A matrix that the body has, outside of it."""
    if matrix.op is None:
        return next(operand.outer for operand in loop.shared if operand.inner is matrix)
    twin = Op("constant", (), matrix.op.attributes, [matrix.type], location=matrix.op.location)
    return loop.graph.insert(twin, loop.op).output
