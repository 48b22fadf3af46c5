"""attention: two matrix products with a softmax between them (`passes.fuse.fuse_attention`).

    attention(q, k, v, others) {scores, depth, width, q, keys, k, v, y, diagonal, empty, expression}

is softmax(expression(q k^T, others)) v, over the last axis of the scores, whose shape `scores` is
[..., rows, keys].  q is [..., rows, depth], k [..., keys, depth], v [..., keys, width] and the
result [..., rows, width].  They are views of the operands and of the output: the attributes `q`,
`k`, `v` and `y` give the number of the first item, then the stride along each dimension, in items
(0 where it repeats).

Keys and values may be split into several tensors: attention(q, k0, v0, k1, v1, others), where
`keys` has two extents, and `k` and `v` two views each.

Row i attends to keys up to number i + `diagonal`, and always to the first one; the expression may
give the other scores any value.  A row whose scores are all -inf gives 0 if `empty` is set,
otherwise NaN, as softmax does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch, views
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch import Rows
from nnefc.ops.core.cost import Cost, expression_steps
from nnefc.ops.core.spec import ExpressionUse, Interpreter, OpSpec, internal
from nnefc.ops.core.traits import Traits, first_operand
from nnefc.ops.core.views import Place


def first_other(op: Op) -> int:
    """Number of the first operand that is an input of the expression."""
    return 1 + 2 * len(op.attributes["keys"])


def places(op: Op) -> list[Place]:
    """Of q, k and v, part by part, and y."""
    a = op.attributes
    *batch, rows, _ = a["scores"]
    query, *others = op.inputs[: first_other(op)]
    found = [Place(query, (*batch, rows, a["depth"]), a["q"])]
    for i, count in enumerate(a["keys"]):
        found.append(Place(others[2 * i], (*batch, count, a["depth"]), a["k"][i]))
        found.append(Place(others[2 * i + 1], (*batch, count, a["width"]), a["v"][i]))
    return [*found, Place(op.output, (*batch, rows, a["width"]), a["y"])]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    *given, target = places(op)
    q, *parts = (views.view(x, place.shape, place.where) for x, place in zip(operands, given))
    k, v = np.concatenate(parts[::2], axis=-2), np.concatenate(parts[1::2], axis=-2)
    shape: Shape = tuple(op.attributes["scores"])
    type_ = TensorType(op.output.type.dtype, shape)
    inputs = [q @ k.swapaxes(-1, -2), *operands[len(given) :]]
    (scores,) = interpreter.expression(op.attributes["expression"], inputs, [type_])
    row, key = np.ogrid[: shape[-2], : shape[-1]]
    scores = np.where(key <= row + op.attributes["diagonal"], scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    sums = powers.sum(-1, keepdims=True)
    if op.attributes["empty"]:
        is_empty = np.all(scores == -np.inf, -1, keepdims=True)
        powers, sums = np.where(is_empty, 0.0, powers), np.where(is_empty, 1.0, sums)
    result: Array = np.zeros(op.output.type.dims)
    views.view(result, target.shape, target.where)[...] = (powers / sums) @ v
    return [result]


def _problems(op: Op) -> list[str]:
    """Violations of the attributes."""
    found: list[str] = []
    a = op.attributes
    if not len(a["keys"]) == len(a["k"]) == len(a["v"]) or len(op.inputs) < first_other(op):
        return [f"{len(a['keys'])} parts of keys, places of {len(a['k'])} and {len(a['v'])}"]
    if sum(a["keys"]) != a["scores"][-1]:
        found.append(f"{sum(a['keys'])} keys for scores {a['scores']}")
    if a["diagonal"] < 0:
        found.append(f"diagonal = {a['diagonal']}: the first row looks at nothing")
    *given, target = places(op)
    names = ["q", *(f"{name}{i}" for i in range(len(a["keys"])) for name in "kv"), "y"]
    found += views.problems(names, [*given, target])
    if math.prod(target.shape) != op.output.type.volume:
        found.append("the result does not fill the output")
    return found


def _multiply_adds(op: Op) -> int:
    """Of both products."""
    return math.prod(op.attributes["scores"]) * (op.attributes["depth"] + op.attributes["width"])


def _operations(op: Op) -> int:
    """The expression; maximum, difference, exponential, sum and quotient of the scores."""
    return (expression_steps(op) + 5) * math.prod(op.attributes["scores"])


def _batch(op: Op, rows: Rows, size: int) -> int:
    """Queries, keys and values of an item lie in its slice of the operands, or are shared."""
    if len(op.attributes["scores"]) < 3:
        return 0
    return batch.places(places(op), rows, size)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name="attention",
        summary="Softmax of products, times values.",
        verify=_problems,
        evaluate=_evaluate,
        traits=Traits(
            cost=Cost(_multiply_adds, _operations),
            batch=batch.then_expression(_batch, first_other),
            blocked=None,
            accumulator=first_operand,
        ),
        expression=ExpressionUse(first_other),
    ),
)
