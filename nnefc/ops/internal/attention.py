"""attention: two matrix products with a softmax between them (`passes.fuse.fuse_attention`).

    attention(q, k, v, others) {scores, depth, width, q, keys, k, v, y, diagonal, empty, expression}

computes softmax(expression(q k^T, others)) v.  The softmax is over the last axis of the scores,
whose shape `scores` is [..., rows, keys].  q is [..., rows, depth], k [..., keys, depth], v
[..., keys, width] and the result [..., rows, width].  They are views of the operands and of the
output: the attributes `q`, `k`, `v` and `y` are the offset of the first item and the stride along
each dimension, in items (0 where the view repeats).

Keys and values may be split into several tensors: attention(q, k0, v0, k1, v1, others) has two
extents in `keys`, and two views each in `k` and `v`.

Row i attends to keys 0 to i + `diagonal`; scores of later keys are hidden, whatever the expression
makes of them.  A row whose scores are all -inf gives 0 if `empty` is set, otherwise NaN as softmax
does.  The attribute `rounded` is the type of the halves that kernels multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules, views
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.cost import Cost, expression_steps
from nnefc.ops.core.spec import ExpressionUse, Interpreter, OpSpec, internal
from nnefc.ops.core.traits import ACCUMULATION
from nnefc.ops.core.views import TensorView


def expression_start(op: Op) -> int:
    """Index of the first operand that is an input of the expression."""
    return 1 + 2 * len(op.attributes["keys"])


def tensor_views(op: Op) -> list[TensorView]:
    """The views q; k and v of each range of keys; y."""
    a = op.attributes
    *batch, rows, _ = a["scores"]
    query, *others = op.inputs[: expression_start(op)]
    tensors = [TensorView(query, (*batch, rows, a["depth"]), a["q"])]
    for i, count in enumerate(a["keys"]):
        tensors.append(TensorView(others[2 * i], (*batch, count, a["depth"]), a["k"][i]))
        tensors.append(TensorView(others[2 * i + 1], (*batch, count, a["width"]), a["v"][i]))
    return [*tensors, TensorView(op.output, (*batch, rows, a["width"]), a["y"])]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    *sources, target = tensor_views(op)
    q, *ranges = (views.strided_array(x, s.shape, s.view) for x, s in zip(operands, sources))
    k, v = np.concatenate(ranges[::2], axis=-2), np.concatenate(ranges[1::2], axis=-2)
    shape: Shape = tuple(op.attributes["scores"])
    type_ = TensorType(op.output.type.dtype, shape)
    inputs = [q @ k.swapaxes(-1, -2), *operands[len(sources) :]]
    (scores,) = interpreter.expression(op.attributes["expression"], inputs, [type_])
    row, key = np.ogrid[: shape[-2], : shape[-1]]
    scores = np.where(key <= row + op.attributes["diagonal"], scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    sums = powers.sum(-1, keepdims=True)
    if op.attributes["empty"]:
        is_empty = np.all(scores == -np.inf, -1, keepdims=True)
        powers, sums = np.where(is_empty, 0.0, powers), np.where(is_empty, 1.0, sums)
    result: Array = np.zeros(op.output.type.dims)
    views.strided_array(result, target.shape, target.view)[...] = (powers / sums) @ v
    return [result]


def _problems(op: Op) -> list[str]:
    """Violations of the rules between attributes, operands and output."""
    violated: list[str] = []
    a = op.attributes
    if not len(a["keys"]) == len(a["k"]) == len(a["v"]) or len(op.inputs) < expression_start(op):
        return [f"{len(a['keys'])} ranges of keys, {len(a['k'])} views of k, {len(a['v'])} of v"]
    if sum(a["keys"]) != a["scores"][-1]:
        violated.append(f"{sum(a['keys'])} keys for scores {a['scores']}")
    if a["diagonal"] < 0:
        violated.append(f"diagonal = {a['diagonal']}: the first row attends to no key")
    tensors = tensor_views(op)
    names = ["q", *(f"{name}{i}" for i in range(len(a["keys"])) for name in "kv"), "y"]
    violated += views.problems(names, tensors)
    if math.prod(tensors[-1].shape) != op.output.type.volume:
        violated.append("the result does not fill the output")
    return violated


def _multiply_adds(op: Op) -> int:
    """Multiply-adds of both products."""
    return math.prod(op.attributes["scores"]) * (op.attributes["depth"] + op.attributes["width"])


def _operations(op: Op) -> int:
    """Operations of the expression, and maximum, difference, exponential, sum and quotient."""
    return (expression_steps(op) + 5) * math.prod(op.attributes["scores"])


def _batch(op: Op, rows: Rows, size: int) -> int:
    """Separable if each item's queries, keys and values lie in its slice of an operand."""
    if len(op.attributes["scores"]) < 3:
        return 0
    return batch_rules.strided(tensor_views(op), rows, size)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name="attention",
        summary="Softmax of products, times values.",
        verify=_problems,
        evaluate=_evaluate,
        traits=ACCUMULATION._replace(
            cost=Cost(_multiply_adds, _operations),
            batch=batch_rules.then_expression(_batch, expression_start),
            resized=batch_rules.shape_attribute("scores"),
        ),
        expression=ExpressionUse(expression_start),
    ),
)
