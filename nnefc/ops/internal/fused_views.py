"""fused_views: an expression of views of tensors, whose results are views of one tensor.

    fused_views(inputs) {extents, inputs, outputs, expression}

evaluates the expression for every index of the space `extents`.  The attribute `inputs` has a view
of the operand for each input of the expression, `outputs` a view of the output for each result: the
offset of the first item and the stride along each dimension of the space, in items (0 where it
repeats).  Items are contiguous along the last dimension.  The results fill the output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core import batch_rules, views
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.core.cost import Cost, expression_steps
from nnefc.ops.core.spec import ExpressionUse, Interpreter, OpSpec, internal
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.views import TensorView

NAME = "fused_views"


def tensor_views(op: Op) -> list[TensorView]:
    """The views of the inputs of the expression, then of its results."""
    a = op.attributes
    values = [*op.inputs, *[op.output] * len(a["outputs"])]
    pairs = zip(values, (*a["inputs"], *a["outputs"]), strict=True)
    return [TensorView(value, tuple(a["extents"]), view) for value, view in pairs]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    tensors = tensor_views(op)
    sources, targets = tensors[: len(operands)], tensors[len(operands) :]
    pairs = zip(operands, sources, strict=True)
    inputs = [views.strided_array(x, s.shape, s.view) for x, s in pairs]
    types = [TensorType(op.output.type.dtype, target.shape) for target in targets]
    computed = interpreter.expression(op.attributes["expression"], inputs, types)
    result: Array = np.zeros(op.output.type.dims, computed[0].dtype)
    for items, target in zip(computed, targets, strict=True):
        views.strided_array(result, target.shape, target.view)[...] = items
    return [result]


def _problems(op: Op) -> list[str]:
    """Violations of the rules between attributes, operands and output."""
    a, count = op.attributes, len(op.inputs)
    if len(a["inputs"]) != count or len(a["outputs"]) != len(a["expression"].results):
        return [f"{len(a['inputs'])} views of operands, {len(a['outputs'])} of results"]
    tensors = tensor_views(op)
    names = [f"{'input' if i < count else 'output'} at {t.view}" for i, t in enumerate(tensors)]
    violated = views.problems(names, tensors)
    if len(a["outputs"]) * math.prod(a["extents"]) != op.output.type.volume:
        violated.append("the results do not fill the output")
    return violated


def _operations(op: Op) -> int:
    return expression_steps(op) * math.prod(op.attributes["extents"])


def _first_operand(op: Op) -> int:
    """0: all operands are inputs of the expression."""
    del op
    return 0


def _batch(op: Op, rows: Rows, size: int) -> int:
    return batch_rules.strided(tensor_views(op), rows, size)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="An expression of items of views.",
        verify=_problems,
        evaluate=_evaluate,
        traits=OPAQUE._replace(
            cost=Cost(multiply_adds=None, other=_operations),
            batch=_batch,
            resized=batch_rules.shape_attribute("extents"),
        ),
        expression=ExpressionUse(_first_operand, results=False),
    ),
)
