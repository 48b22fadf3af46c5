"""fused_views: an expression of views of tensors, whose results are views of one tensor.

    fused_views(inputs) {extents, inputs, outputs, expression}

evaluates the expression for every index of the space `extents`.  Its inputs are items of the
operands, its results items of the output.  The attributes `inputs` and `outputs` have a view for
each of them: the number of the first item, then the stride along each dimension of the space, in
items (0 where it repeats).  Items are contiguous along the last dimension.  Results fill the
output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core import batch, views
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch import Rows
from nnefc.ops.core.cost import Cost, expression_steps
from nnefc.ops.core.spec import ExpressionUse, Interpreter, OpSpec, internal
from nnefc.ops.core.traits import Traits
from nnefc.ops.core.views import Place

NAME = "fused_views"


def places(op: Op) -> list[Place]:
    """Of the inputs of the expression, then of its results."""
    a = op.attributes
    values = [*op.inputs, *[op.output] * len(a["outputs"])]
    every = zip(values, (*a["inputs"], *a["outputs"]), strict=True)
    return [Place(value, tuple(a["extents"]), where) for value, where in every]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    every = places(op)
    given, targets = every[: len(operands)], every[len(operands) :]
    read = [views.view(x, p.shape, p.where) for x, p in zip(operands, given, strict=True)]
    types = [TensorType(op.output.type.dtype, p.shape) for p in targets]
    computed = interpreter.expression(op.attributes["expression"], read, types)
    result: Array = np.zeros(op.output.type.dims, computed[0].dtype)
    for items, place in zip(computed, targets, strict=True):
        views.view(result, place.shape, place.where)[...] = items
    return [result]


def _problems(op: Op) -> list[str]:
    """Violations of the attributes."""
    a, count = op.attributes, len(op.inputs)
    if len(a["inputs"]) != count or len(a["outputs"]) != len(a["expression"].results):
        return [f"{len(a['inputs'])} places of operands, {len(a['outputs'])} of results"]
    every = places(op)
    names = [f"{'input' if i < count else 'output'} at {p.where}" for i, p in enumerate(every)]
    found = views.problems(names, every)
    if len(a["outputs"]) * math.prod(a["extents"]) != op.output.type.volume:
        found.append("the results do not fill the output")
    return found


def _operations(op: Op) -> int:
    return expression_steps(op) * math.prod(op.attributes["extents"])


def _first_operand(op: Op) -> int:
    """All operands are inputs of the expression."""
    del op
    return 0


def _batch(op: Op, rows: Rows, size: int) -> int:
    return batch.places(places(op), rows, size)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="An expression of items of views.",
        verify=_problems,
        evaluate=_evaluate,
        traits=Traits(
            cost=Cost(multiply_adds=None, other=_operations),
            batch=_batch,
            blocked=None,
            accumulator=None,
        ),
        expression=ExpressionUse(_first_operand, results=False),
    ),
)
