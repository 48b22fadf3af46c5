"""Fuse two matrix products with a softmax between them into `attention`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from nnefc.ir import Expression, Graph, Op, Shape, Step, TensorType, Value
from nnefc.ops.core.strided_rules import reshaped
from nnefc.passes.analysis import repeated_heads
from nnefc.passes.analysis.causal_masks import CausalMasks
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.strided_views import StridedView, strided_pieces, strided_source
from nnefc.passes.op_queries import is_view, only_user, producer


@dataclass(frozen=True)
class FuseAttention:
    """Fuse matmul, softmax, matmul into `attention` (see `nnefc.ops.internal.attention`).

        %q: float32[2,7,4] = transpose(%x) {axes = [1, 0, 2]}
        %s: float32[2,7,7] = matmul(%q, %k) {transposeA = false, transposeB = true}
        %p: float32[2,7,7] = softmax(%s) {axes = [2]}
        %y: float32[2,7,4] = matmul(%p, %v) {transposeA = false, transposeB = false}

    becomes, for %x: float32[7,2,4],

        %y: float32[2,7,4] = attention(%x, %k, %v) {scores = [2,7,7], depth = 4, width = 4,
          q = [0, 4, 8, 1], keys = [7], k = [[0, 28, 4, 1]], v = [[0, 28, 4, 1]],
          y = [0, 28, 4, 1], diagonal = 6, empty = false, expression = ...}

    Scores are a `matmul` or `fused_matmul` that only the softmax uses.  Transposes, splits and
    reshapes of operands, and a transpose of the result that keeps its last dimension, become
    strides.  Operands of a concatenation of keys or values, `parts` at most, are read in place; so
    are repeated heads (`repeated_heads`).  A causal mask at the end of the expression becomes a
    diagonal.  Factors of queries and of keys, also those before transposes and views, become a
    factor of the scores.  A guard that replaces NaN by 0 in rows whose scores are all -inf becomes
    the attribute `empty`: it is `select(max_reduce(%s) > -inf, %p, 0.0)` or
    `select(%p != %p, 0.0, %p)`.  The latter also replaces NaN in rows with scores that are NaN or
    inf, which stays here.
    """

    name: ClassVar[str] = "fuse_attention"
    enters_loops: ClassVar[bool] = True
    parts: int = 4

    def run(self, graph: Graph) -> bool:
        changed, masks = False, CausalMasks(KnownValues(graph))
        for op in list(graph.ops):
            if op.name == "softmax" and _fuse(graph, op, masks, self.parts):
                changed = True
        return changed


def _fuse(graph: Graph, softmax: Op, masks: CausalMasks, most: int) -> bool:
    """Fuse the attention around a softmax, with at most `most` ranges of keys."""
    scores = softmax.inputs[0]
    guards = _guards(graph, softmax)
    products = _products(graph, softmax, guards)
    if products is None:
        return False
    first, second = products
    (query, k), factor = _without_factors(graph, first)
    v = second.inputs[1]
    batch = scores.type.dims[:-2]
    view, dims = strided_source(query), query.type.dims
    finer = repeated_heads.finer_batch(k, v) if dims[:-2] == batch else None
    finer_view = None if finer is None else repeated_heads.finer_view(view, dims, finer)
    if finer is not None and finer_view is not None:
        view, dims = finer_view, (*finer, *dims[-2:])
        k, v = repeated_heads.unrepeated(k), repeated_heads.unrepeated(v)
    else:
        finer = batch
    q = _matrix(view, dims, transposed=first.attributes["transposeA"])
    ranges = _key_ranges(
        k,
        v,
        k_transposed=not first.attributes["transposeB"],
        v_transposed=second.attributes["transposeB"],
        most=most,
    )
    target, strides, after = _target(graph, second.output, finer)
    expression, others, diagonal = _epilogue(first, masks)
    expression = _scaled(expression, factor)
    attributes = {
        "scores": (*finer, *scores.type.dims[-2:]),
        "depth": dims[-2 if first.attributes["transposeA"] else -1],
        "width": second.output.type.dims[-1],
        "q": q.attribute,
        "keys": tuple(each.extent for each in ranges),
        "k": tuple(each.k.attribute for each in ranges),
        "v": tuple(each.v.attribute for each in ranges),
        "y": (0, *strides),
        "diagonal": diagonal,
        "empty": bool(guards),
        "expression": expression,
    }
    inputs = [q.source]
    for each in ranges:
        inputs += [each.k.source, each.v.source]
    last = target.op
    assert last is not None
    for other in others:
        inputs.append(repeated_heads.finer_operand(graph, other, batch, finer, last))
    type_ = TensorType(target.type.dtype, target.type.shape)
    attention = Op("attention", inputs, attributes, [type_], [target.name], softmax.location)
    graph.insert(attention, last)
    graph.replace_value(target, attention.output)
    for op in (*after, second, *guards, softmax, first):
        graph.erase(op)
    return True


def _epilogue(product: Op, masks: CausalMasks) -> tuple[Expression, tuple[Value, ...], int]:
    """The expression of the scores, its operands behind the product, and the last key that row 0
    attends to; a causal mask becomes such a diagonal.
    """
    scores = product.output.type
    if "expression" not in product.attributes:
        return Expression((scores.dtype,), (), (0,)), (), scores.dims[-1] - 1
    expression: Expression = product.attributes["expression"]
    others = tuple(product.inputs[2:])
    unmasked = masks.without_mask(expression, others, scores.dims)
    return unmasked or (expression, others, scores.dims[-1] - 1)


def _products(graph: Graph, softmax: Op, guards: tuple[Op, ...]) -> tuple[Op, Op] | None:
    """The matrix products before and after the softmax of an attention; None if it is not one."""
    scores = softmax.inputs[0]
    weights = guards[0].output if guards else softmax.output
    first = producer(scores, "matmul", "fused_matmul")
    second = only_user(graph, weights, "matmul")
    if (
        first is None
        or len(scores.users) != (2 if len(guards) > 1 else 1)
        or graph.is_output(scores)
        or softmax.attributes["axes"] != (scores.type.rank - 1,)
        or second is None
        or second.inputs[0] is not weights
        or second.attributes["transposeA"]
        or second.output.type.dims[:-2] != scores.type.dims[:-2]
    ):
        return None
    return first, second


def _guards(graph: Graph, softmax: Op) -> tuple[Op, ...]:
    """(select, comparison, maximum), or a fused operation, that make weights 0 in rows whose scores
    are all -inf.

    Empty without such a guard.
    """
    select = only_user(graph, softmax.output)
    if select is not None and _replaces_nan(select):
        return (select,)
    selected = None if select is None else _with_literal(select, "select", 0.0)
    if select is None or selected is None or selected[1:] != [softmax.output]:
        return ()
    visible = selected[0].op
    compared = None if visible is None else _with_literal(visible, "gt", -math.inf)
    if visible is None or not compared or only_user(graph, visible.output) is not select:
        return ()
    maximum = producer(compared[0], "max_reduce")
    if (
        maximum is None
        or only_user(graph, maximum.output) is not visible
        or maximum.inputs[0] is not softmax.inputs[0]
        or maximum.attributes["axes"] != softmax.attributes["axes"]
    ):
        return ()
    return select, visible, maximum


def _replaces_nan(op: Op) -> bool:
    """Whether an operation is `select(x != x, 0.0, x)`."""
    if op.name != "fused" or len(op.inputs) != 1:
        return False
    expression: Expression = op.attributes["expression"]
    steps = {step.op: (1 + i, step) for i, step in enumerate(expression.steps)}
    if len(expression.steps) != 3 or set(steps) != {"literal", "ne", "select"}:
        return False
    (zero, literal), (compared, ne), (result, select) = (
        steps[name] for name in ("literal", "ne", "select")
    )
    return (
        literal.value == 0
        and ne.operands == (0, 0)
        and select.operands == (compared, zero, 0)
        and expression.results == (result,)
    )


def _without_factors(graph: Graph, product: Op) -> tuple[list[Value], float]:
    """The operands of a product without constant factors, and the product of these."""
    (x, first), (y, second) = (_without_factor(graph, each) for each in product.inputs[:2])
    return [x, y], first * second


def _without_factor(graph: Graph, x: Value) -> tuple[Value, float]:
    """`x` without a constant factor, which may lie before transposes and views; and the factor."""
    chain: list[Op] = []
    value = x
    while value.op is not None and (value.op.name == "transpose" or is_view(value.op)):
        chain.append(value.op)
        value = value.op.inputs[0]
    factor = None if value.op is None else _factor(value.op)
    if value.op is None or factor is None:
        return x, 1.0
    value = value.op.inputs[0]
    for op in reversed(chain):
        moved = Op(op.name, [value], op.attributes, [op.output.type], (), op.location)
        value = graph.insert(moved, op).output
    return value, factor


def _factor(op: Op) -> float | None:
    """The number c of an operation `mul(x, c)`; None for other operations."""
    if op.name != "fused" or len(op.inputs) != 1 or op.output.type != op.inputs[0].type:
        return None
    expression: Expression = op.attributes["expression"]
    if [step.op for step in expression.steps] != ["literal", "mul"]:
        return None
    literal, multiply = expression.steps
    if sorted(multiply.operands) != [0, 1] or not isinstance(literal.value, float):
        return None
    return literal.value if math.isfinite(literal.value) else None


def _scaled(expression: Expression, factor: float) -> Expression:
    """An expression of `factor` times its first input."""
    if factor == 1:
        return expression
    count, dtype = len(expression.inputs), expression.inputs[0]

    def moved(operand: int) -> int:
        return count + 1 if operand == 0 else operand + 2 if operand >= count else operand

    steps = [Step("literal", (), dtype, factor), Step("mul", (0, count), dtype)]
    for step in expression.steps:
        steps.append(replace(step, operands=tuple(map(moved, step.operands))))
    return Expression(expression.inputs, tuple(steps), tuple(map(moved, expression.results)))


def _with_literal(op: Op, name: str, number: float) -> list[Value] | None:
    """The operands before the last of a lone step `name` whose last operand is `number`.

    None if `op` is not a fused operation of this form.
    """
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
    """(value to write, strides of the result in it, operations to erase) for a result with `batch`.

    The value is the result of a transpose that keeps the last dimension, perhaps behind a reshape;
    otherwise `result` itself.
    """
    dims = (*batch, *result.type.dims[-2:])
    value, after = result, list[Op]()
    reshape = only_user(graph, value, "reshape")
    if reshape is not None:
        value, after = reshape.output, [reshape]
    user = only_user(graph, value, "transpose")
    if user is not None:
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
    """A range of keys with the views of its keys and values."""

    extent: int
    k: StridedView
    v: StridedView


def _key_ranges(
    k: Value, v: Value, *, k_transposed: bool, v_transposed: bool, most: int
) -> list[_KeyRange]:
    """The ranges of keys in which k, v or both are concatenated; one range if they do not match."""
    rank = k.type.rank
    axes = [rank - (1 if transposed else 2) for transposed in (k_transposed, v_transposed)]
    keys = k.type.dims[axes[0]]
    pieces = [strided_pieces(x, axis) for x, axis in zip((k, v), axes, strict=True)]
    cuts = [[extent for extent, _ in of_operand] for of_operand in pieces]
    cut = max(cuts, key=len)
    if len(cut) > most or any(len(other) > 1 and other != cut for other in cuts):
        cut, cuts = [keys], [[keys], [keys]]
        pieces = [[(keys, strided_source(x))] for x in (k, v)]
    starts = [sum(cut[:i]) for i in range(len(cut))]
    views: list[list[StridedView]] = []
    for of_operand, axis in zip(pieces, axes, strict=True):
        of_ranges = [view for _, view in of_operand]
        if len(of_ranges) < len(cut):
            of_ranges = [of_ranges[0].from_index(axis, start) for start in starts]
        views.append(of_ranges)
    return [
        _KeyRange(
            extent,
            _matrix(of_k, k.type.dims, transposed=k_transposed),
            _matrix(of_v, v.type.dims, transposed=v_transposed),
        )
        for extent, of_k, of_v in zip(cut, *views, strict=True)
        if extent > 0
    ]


def _matrix(view: StridedView, dims: Shape, *, transposed: bool) -> StridedView:
    """A view of shape `dims` as [..., rows or keys, items], repeated over the batch of scores."""
    *batch, row, step = view.strides
    repeated = [0 if extent == 1 else s for extent, s in zip(dims, batch)]
    last = (step, row) if transposed else (row, step)
    return StridedView(view.source, view.offset, (*repeated, *last))
