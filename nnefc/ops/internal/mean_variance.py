"""mean_variance_normalization: layer or RMS normalisation (`passes.fuse.fuse_normalization`).

    mean_variance_normalization(x) {axes, epsilon, centred}

computes (x - mean) / sqrt(variance + epsilon), with mean and variance along `axes`.  Unless
`centred` is set, the mean counts as 0 and the variance is the mean of squares (RMS normalisation:
Zhang & Sennrich 2019).  `fused_mean_variance_normalization` applies an expression to the result
(`ops.internal.fused`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import Cost, input_items
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import ACCUMULATION

NAME: Final = "mean_variance_normalization"
FUSED_NAME: Final = f"fused_{NAME}"


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del interpreter
    (x,) = operands
    axes = tuple(op.attributes["axes"])
    mean = x.mean(axes, keepdims=True) if op.attributes["centred"] else 0.0
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return [(x - mean) / np.sqrt(variance + op.attributes["epsilon"])]


def _problems(op: Op) -> list[str]:
    """Violations: axes outside of the operand, a result of another type."""
    x, y, axes = op.inputs[0].type, op.output.type, op.attributes["axes"]
    violated: list[str] = []
    if len(set(axes)) != len(axes) or not all(0 <= axis < x.rank for axis in axes):
        violated.append(f"axes {list(axes)} must be distinct axes of {x}")
    if TensorType(x.dtype, x.shape) != TensorType(y.dtype, y.shape) or not x.dtype.is_float:
        violated.append(f"the result is {y}, the operand {x}: both must have one float type")
    return violated


def _operations(op: Op) -> int:
    """Operations of mean, differences, squares and factor; of squares and factor without a mean."""
    return (6 if op.attributes["centred"] else 3) * input_items(op)


def _on_blocks(op: Op) -> bool:
    """Computes on channel blocks unless it reduces channels."""
    return 1 not in op.attributes["axes"]


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="Layer or RMS normalisation.",
        verify=_problems,
        evaluate=_evaluate,
        traits=ACCUMULATION._replace(
            cost=Cost(multiply_adds=None, other=_operations),
            batch=batch_rules.axes,
            blocked=_on_blocks,
            with_expression=FUSED_NAME,
        ),
    ),
)
