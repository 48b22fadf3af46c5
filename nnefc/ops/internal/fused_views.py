"""fused_views: an expression over parts of tensors, whose results are parts of one tensor.

    fused_views(inputs) {extents, inputs, outputs, expression}

evaluates the expression for every index of the space `extents`.  Its inputs are items of the
operands, its results items of the output.  Which ones, say `inputs` and `outputs`: for each of them
the number of the first item, then the stride along each dimension of the space, in items (0 where
it repeats).  Along the last dimension, items lie one behind the other.  Results fill the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core import views
from nnefc.ops.core.common import Array
from nnefc.ops.core.views import Place

NAME = "fused_views"


def places(op: Op) -> list[Place]:
    """Of the inputs of the expression, then of its results."""
    a = op.attributes
    values = [*op.inputs, *[op.output] * len(a["outputs"])]
    every = zip(values, (*a["inputs"], *a["outputs"]), strict=True)
    return [Place(value, tuple(a["extents"]), where) for value, where in every]


def fused_views(
    op: Op,
    operands: Sequence[Array],
    expression: Callable[[list[Array], list[TensorType]], list[Array]],
) -> Array:
    """The result; `expression` computes those of the operation over its inputs."""
    every = places(op)
    given, targets = every[: len(operands)], every[len(operands) :]
    read = [views.view(x, p.shape, p.where) for x, p in zip(operands, given, strict=True)]
    types = [TensorType(op.output.type.dtype, p.shape) for p in targets]
    computed = expression(read, types)
    result: Array = np.zeros(op.output.type.dims, computed[0].dtype)
    for items, place in zip(computed, targets, strict=True):
        views.view(result, place.shape, place.where)[...] = items
    return result


def problems(op: Op) -> list[str]:
    """What is wrong with the attributes."""
    a, count = op.attributes, len(op.inputs)
    if len(a["inputs"]) != count or len(a["outputs"]) != len(a["expression"].results):
        return [f"{len(a['inputs'])} places of operands, {len(a['outputs'])} of results"]
    every = places(op)
    names = [f"{'input' if i < count else 'output'} at {p.where}" for i, p in enumerate(every)]
    found = views.problems(names, every)
    if len(a["outputs"]) * math.prod(a["extents"]) != op.output.type.volume:
        found.append("the results do not fill the output")
    return found
