"""Merge products of one row with several matrices in loops into one product."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.traits import Folding
from nnefc.ops.tools.build import build
from nnefc.ops.tools.table import operations
from nnefc.passes.analysis.editable_loop import Loop, loops
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import is_constant, is_view


@dataclass(frozen=True)
class MergeProducts:
    """Merge products in the body of a loop that multiply one row with different weights.

        %i: float32[1,8] = matmul(%h, %u) {transposeA = false, transposeB = true}
        %f: float32[1,8] = matmul(%h, %v) {transposeA = false, transposeB = true}

    becomes, with a new operand %w of the loop, the concatenation of %u and %v,

        %0: float32[1,16] = matmul(%h, %w) {transposeA = false, transposeB = true}
        %i: float32[1,8], %f: float32[1,8] = split(%0) {axis = 1, ratios = [8, 8]}

    The gates of recurrent networks are such products.  Threads share one long product better than
    several short ones.  The split copies nothing, since its results are contiguous.  The
    concatenation is folded, since all weights are constants or will be.
    """

    name: ClassVar[str] = "merge_products"
    enters_loops: ClassVar[bool] = True

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
    """Products of one row with weights, grouped by row, rank and flags: groups can be merged."""
    known = KnownValues(loop.graph)
    outer: dict[Value, Value] = {o.inner: _stored(o.outer) for o in loop.shared}
    groups: dict[Hashable, list[Op]] = {}
    for op in loop.body.ops:
        if op.name != "matmul" or math.prod(op.output.type.dims[:-1]) > 1:
            continue
        row, matrix = op.inputs
        stored = outer.get(matrix) or matrix
        if is_constant(stored) or _is_data(stored, known):
            flags = op.attributes["transposeA"], op.attributes["transposeB"]
            groups.setdefault((row, stored.type.rank, *flags), []).append(op)
    return groups


def _stored(matrix: Value) -> Value:
    """The matrix before reshapes that only add or remove leading singular dimensions."""
    while (op := matrix.op) is not None and is_view(op):
        (source,) = op.inputs
        if source.type.dims[-2:] != matrix.type.dims[-2:]:
            break
        matrix = source
    return matrix


def _is_data(value: Value, known: KnownValues) -> bool:
    """Whether a value is known, or computed from known values by operations that always fold;
    views and element-wise operations do not count.
    """
    op = value.op
    if value in known or op is None:
        return value in known
    spec = operations().get(op.name)
    if spec is None or is_view(op) or spec.elementwise or spec.traits.folding is not Folding.LINEAR:
        return False
    return all(_is_data(operand, known) for operand in op.inputs)


def _merge(loop: Loop, ops: Sequence[Op]) -> None:
    """Replace products of one row by one product and a split."""
    first = ops[0]
    flags, matrix = first.attributes, first.inputs[1]
    matrices = [_stored(_outside(loop, op.inputs[1])) for op in ops]
    axis = matrices[0].type.rank - (2 if flags["transposeB"] else 1)
    joined = _before(loop.graph, loop.op, "concat", matrices, axis=axis).output
    if joined.type.rank != matrix.type.rank:
        shape = (*matrix.type.dims[:-2], *joined.type.dims[-2:])
        joined = _before(loop.graph, loop.op, "reshape", [joined], shape=shape).output
    operands = [first.inputs[0], loop.share(joined)]
    product = _before(loop.body, first, "matmul", operands, **flags).output
    sizes = tuple(op.output.type.dims[-1] for op in ops)
    chunks = _before(
        loop.body, first, "split", [product], axis=product.type.rank - 1, ratios=sizes
    ).outputs
    for op, chunk in zip(ops, chunks, strict=True):
        loop.replace(op.output, chunk)
        loop.body.erase(op)


def _before(graph: Graph, op: Op, name: str, operands: Sequence[Value], **attributes: Any) -> Op:
    return build(graph, name, operands, attributes, before=op, location=op.location)


def _outside(loop: Loop, matrix: Value) -> Value:
    """The value before the loop of a shared or constant matrix of the body."""
    if matrix.op is None:
        return next(operand.outer for operand in loop.shared if operand.inner is matrix)
    twin = Op("constant", (), matrix.op.attributes, [matrix.type], location=matrix.op.location)
    return loop.graph.insert(twin, loop.op).output
