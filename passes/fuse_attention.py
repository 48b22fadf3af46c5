"""Make one operation of two matrix products with a softmax between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Expression, Graph, Op, TensorType, Value
from nnefc.passes.base import only_user
from nnefc.passes.strided import StridedView, strided_source


@dataclass(frozen=True)
class FuseAttention:
    """Make `attention` operations (see `nnefc.ops.attention`), through transposes and splits.

        %q: float32[2,7,4] = transpose(%x) {axes = [1, 0, 2]}
        %s: float32[2,7,7] = matmul(%q, %k) {transposeA = false, transposeB = true}
        %p: float32[2,7,7] = softmax(%s) {axes = [2]}
        %y: float32[2,7,4] = matmul(%p, %v) {transposeA = false, transposeB = false}

    becomes, for %x: float32[7,2,4],

        %y: float32[2,7,4] = attention(%x, %k, %v) {scores = [2,7,7], depth = 4, width = 4,
          q = [0, 4, 8, 1], k = [0, 28, 4, 1], v = [0, 28, 4, 1], y = [0, 28, 4, 1],
          expression = ...}

    Scores are a product, or one with an expression (`fused_matmul`), that nothing but the softmax
    uses.  A transpose of the result that keeps its last dimension becomes part of it.
    """

    name: ClassVar[str] = "fuse_attention"

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            if op.name == "softmax" and _fuse(graph, op):
                changed = True
        return changed


def _fuse(graph: Graph, softmax: Op) -> bool:
    scores = softmax.inputs[0]
    rank = scores.type.rank
    first, second = scores.op, only_user(graph, softmax.output)
    if (
        first is None
        or first.name not in ("matmul", "fused_matmul")
        or only_user(graph, scores) is not softmax
        or softmax.attributes["axes"] != (rank - 1,)
        or second is None
        or second.name != "matmul"
        or second.inputs[0] is not softmax.output
        or second.attributes["transposeA"]
        or second.output.type.dims[:-2] != scores.type.dims[:-2]
    ):
        return False
    q = _operand(first.inputs[0], scores, turned=first.attributes["transposeA"])
    k = _operand(first.inputs[1], scores, turned=not first.attributes["transposeB"])
    v = _operand(second.inputs[1], scores, turned=second.attributes["transposeB"])
    result, target = second.output, second.output
    order = list(range(rank))
    transpose = only_user(graph, result)
    if transpose is not None and transpose.name == "transpose":
        axes = transpose.attributes["axes"]
        axes = (*axes, *range(len(axes), rank))
        if axes[-1] == rank - 1:
            target, order = transpose.output, list(axes)
    strides = StridedView.dense(target).strides
    types = (scores.type.dtype,)
    expression = first.attributes.get("expression", Expression(types, (), (0,)))
    attributes = {
        "scores": scores.type.dims,
        "depth": first.inputs[0].type.dims[-2 if first.attributes["transposeA"] else -1],
        "width": result.type.dims[-1],
        "q": q.attribute,
        "k": k.attribute,
        "v": v.attribute,
        "y": (0, *(strides[order.index(axis)] for axis in range(rank))),
        "expression": expression,
    }
    inputs = (q.source, k.source, v.source, *first.inputs[2:])
    type_ = TensorType(target.type.dtype, target.type.shape)
    made = Op("attention", inputs, attributes, [type_], [target.name], softmax.location)
    last = target.op
    assert last is not None
    graph.insert(made, last)
    graph.replace_value(target, made.output)
    for op in dict.fromkeys((last, second, softmax, first)):
        graph.erase(op)
    return True


def _operand(value: Value, scores: Value, *, turned: bool) -> StridedView:
    """`value` as [..., rows or keys, items], repeated over the batch of the scores."""
    found = strided_source(value)
    dims = value.type.dims
    *batch, row, step = found.strides
    repeated = [0 if extent == 1 else s for extent, s in zip(dims, batch)]
    last = (step, row) if turned else (row, step)
    return StridedView(found.source, found.offset, (*repeated, *last))
