"""Fuse two matrix products with a softmax between them into `attention`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from nnefc.ir import Expression, Graph, Op, Shape, TensorType, Value
from nnefc.passes.analysis import repeated_heads
from nnefc.passes.analysis.causal_masks import CausalMasks
from nnefc.passes.analysis.known_data import Known
from nnefc.passes.analysis.strided import StridedView, reshaped, strided_parts, strided_source
from nnefc.passes.base import only_user


@dataclass(frozen=True)
class FuseAttention:
    """Make `attention` operations (see `nnefc.ops.internal.attention`), through transposes and
    splits.

        %q: float32[2,7,4] = transpose(%x) {axes = [1, 0, 2]}
        %s: float32[2,7,7] = matmul(%q, %k) {transposeA = false, transposeB = true}
        %p: float32[2,7,7] = softmax(%s) {axes = [2]}
        %y: float32[2,7,4] = matmul(%p, %v) {transposeA = false, transposeB = false}

    becomes, for %x: float32[7,2,4],

        %y: float32[2,7,4] = attention(%x, %k, %v) {scores = [2,7,7], depth = 4, width = 4,
          q = [0, 4, 8, 1], keys = [7], k = [[0, 28, 4, 1]], v = [[0, 28, 4, 1]],
          y = [0, 28, 4, 1], diagonal = 6, empty = false, expression = ...}

    Scores are a product, or one with an expression (`fused_matmul`), that nothing but the softmax
    uses.  A transpose of the result that keeps its last dimension becomes part of it.  Keys and
    values that are concatenated, `parts` at most, are read where they were before; so are heads
    that are repeated (`repeated_heads`).  An expression that ends with a causal mask becomes one
    without, and a diagonal.  Where weights are 0 instead of NaN in rows whose scores are all -inf,
    `select(max_reduce(%s) > -inf, %p, 0.0)`, that becomes the attribute `empty`.
    """

    name: ClassVar[str] = "fuse_attention"
    enters_loops: ClassVar[bool] = True
    parts: int = 4

    def run(self, graph: Graph) -> bool:
        changed, masks = False, CausalMasks(Known(graph))
        for op in list(graph.ops):
            if op.name == "softmax" and _fuse(graph, op, masks, self.parts):
                changed = True
        return changed


def _fuse(graph: Graph, softmax: Op, masks: CausalMasks, most: int) -> bool:
    scores = softmax.inputs[0]
    guards = _guards(graph, softmax)
    products = _products(graph, softmax, guards)
    if products is None:
        return False
    first, second = products
    query, k, v = first.inputs[0], first.inputs[1], second.inputs[1]
    batch, keys = scores.type.dims[:-2], scores.type.dims[-1]
    found, dims = strided_source(query), query.type.dims
    finer = repeated_heads.groups(k, v) if dims[:-2] == batch else None
    view = None if finer is None else repeated_heads.finer_view(found, dims, finer)
    if finer is not None and view is not None:
        found, dims = view, (*finer, *dims[-2:])
        k, v = repeated_heads.before(k), repeated_heads.before(v)
    else:
        finer = batch
    q = _matrix(found, dims, turned=first.attributes["transposeA"])
    parts = _parts(
        k,
        v,
        k_turned=not first.attributes["transposeB"],
        v_turned=second.attributes["transposeB"],
        most=most,
    )
    target, strides, after = _target(graph, second.output, finer)
    expression, others = Expression((scores.type.dtype,), (), (0,)), ()
    diagonal = keys - 1
    if "expression" in first.attributes:
        expression, others = first.attributes["expression"], first.inputs[2:]
        unmasked = masks.without_mask(expression, others, scores.type.dims)
        if unmasked is not None:
            expression, others, diagonal = unmasked
    attributes = {
        "scores": (*finer, *scores.type.dims[-2:]),
        "depth": dims[-2 if first.attributes["transposeA"] else -1],
        "width": second.output.type.dims[-1],
        "q": q.attribute,
        "keys": tuple(part.extent for part in parts),
        "k": tuple(part.k.attribute for part in parts),
        "v": tuple(part.v.attribute for part in parts),
        "y": (0, *strides),
        "diagonal": diagonal,
        "empty": bool(guards),
        "expression": expression,
    }
    inputs = [q.source]
    for part in parts:
        inputs += [part.k.source, part.v.source]
    last = target.op
    assert last is not None
    for other in others:
        inputs.append(repeated_heads.finer_operand(graph, other, batch, finer, last))
    type_ = TensorType(target.type.dtype, target.type.shape)
    made = Op("attention", inputs, attributes, [type_], [target.name], softmax.location)
    graph.insert(made, last)
    graph.replace_value(target, made.output)
    for op in (*after, second, *guards, softmax, first):
        graph.erase(op)
    return True


def _products(graph: Graph, softmax: Op, guards: tuple[Op, ...]) -> tuple[Op, Op] | None:
    """The matrix products before and after a softmax; None if it is not that of an attention."""
    scores = softmax.inputs[0]
    weights = guards[0].output if guards else softmax.output
    first, second = scores.op, only_user(graph, weights)
    if (
        first is None
        or first.name not in ("matmul", "fused_matmul")
        or len(scores.users) != (2 if guards else 1)
        or graph.is_output(scores)
        or softmax.attributes["axes"] != (scores.type.rank - 1,)
        or second is None
        or second.name != "matmul"
        or second.inputs[0] is not weights
        or second.attributes["transposeA"]
        or second.output.type.dims[:-2] != scores.type.dims[:-2]
    ):
        return None
    return first, second


def _guards(graph: Graph, softmax: Op) -> tuple[Op, ...]:
    """What makes weights 0 in rows whose scores are all -inf; nothing if they are NaN there."""
    select = only_user(graph, softmax.output)
    found = None if select is None else _with_literal(select, "select", 0.0)
    if select is None or found is None or found[1:] != [softmax.output]:
        return ()
    shown = found[0].op
    most = None if shown is None else _with_literal(shown, "gt", -math.inf)
    if shown is None or not most or only_user(graph, shown.output) is not select:
        return ()
    maximum = most[0].op
    if (
        maximum is None
        or maximum.name != "max_reduce"
        or only_user(graph, maximum.output) is not shown
        or maximum.inputs[0] is not softmax.inputs[0]
        or maximum.attributes["axes"] != softmax.attributes["axes"]
    ):
        return ()
    return select, shown, maximum


def _with_literal(op: Op, name: str, number: float) -> list[Value] | None:
    """The other operands of an operation, the only one in an expression, whose last is a number."""
    if op.name != "fused":
        return None
    expression: Expression = op.attributes["expression"]
    count = len(expression.inputs)
    if len(expression.steps) != 2 or expression.steps[1].op != name:
        return None
    *others, last = expression.steps[1].operands
    if expression.steps[0].value != number or last != count or count in others:
        return None
    return [op.inputs[i] for i in others]


def _target(graph: Graph, result: Value, batch: Shape) -> tuple[Value, tuple[int, ...], list[Op]]:
    """(value, strides in it of the result with a batch, what the result goes through until then).

    That is the result of a transpose that keeps the last dimension, perhaps behind a reshape.
    """
    dims = (*batch, *result.type.dims[-2:])
    value, after = result, list[Op]()
    user = only_user(graph, value)
    if user is not None and user.name == "reshape":
        value, after = user.output, [user]
        user = only_user(graph, value)
    if user is not None and user.name == "transpose":
        rank = value.type.rank
        order = (*user.attributes["axes"], *range(len(user.attributes["axes"]), rank))
        along = StridedView.dense(user.output).strides
        before = tuple(along[order.index(axis)] for axis in range(rank))
        strides = reshaped(value.type.dims, before, dims)
        if strides is not None and strides[-1] <= 1:
            return user.output, strides, [user, *after]
    strides = reshaped(result.type.dims, StridedView.dense(result).strides, dims)
    assert strides is not None
    return result, strides, []


class _KeyRange(NamedTuple):
    extent: int
    k: StridedView
    v: StridedView


def _parts(k: Value, v: Value, *, k_turned: bool, v_turned: bool, most: int) -> list[_KeyRange]:
    """Keys and values, in the parts that both have, or that one of them has."""
    rank = k.type.rank
    axes = [rank - (1 if turned else 2) for turned in (k_turned, v_turned)]
    keys = k.type.dims[axes[0]]
    found = [strided_parts(x, axis) for x, axis in zip((k, v), axes, strict=True)]
    cuts = [[extent for extent, _ in parts] for parts in found]
    cut = max(cuts, key=len)
    if len(cut) > most or any(len(other) > 1 and other != cut for other in cuts):
        cut, cuts = [keys], [[keys], [keys]]
        found = [[(keys, strided_source(x))] for x in (k, v)]
    starts = [sum(cut[:i]) for i in range(len(cut))]
    places: list[list[StridedView]] = []
    for parts, axis in zip(found, axes, strict=True):
        views = [one for _, one in parts]
        if len(views) < len(cut):
            views = [views[0].from_index(axis, start) for start in starts]
        places.append(views)
    return [
        _KeyRange(
            extent,
            _matrix(one, k.type.dims, turned=k_turned),
            _matrix(other, v.type.dims, turned=v_turned),
        )
        for extent, one, other in zip(cut, *places, strict=True)
        if extent > 0
    ]


def _matrix(found: StridedView, dims: Shape, *, turned: bool) -> StridedView:
    """A view of shape `dims` as [..., rows or keys, items], repeated over the batch of scores."""
    *batch, row, step = found.strides
    repeated = [0 if extent == 1 else s for extent, s in zip(dims, batch)]
    last = (step, row) if turned else (row, step)
    return StridedView(found.source, found.offset, (*repeated, *last))
