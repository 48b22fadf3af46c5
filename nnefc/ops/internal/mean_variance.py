"""mean_variance_normalization: layer or RMS normalisation (`passes.fuse.fuse_normalization`).

    mean_variance_normalization(x) {axes, epsilon, centred}

is (x - mean) / sqrt(variance + epsilon), with mean and variance along `axes`.  Unless it is
`centred` the mean counts as 0: the root is that of the mean of squares (RMS normalisation).
`fused_mean_variance_normalization` applies an expression to the result, see `ops.internal.fused`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core import batch
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import Cost, input_items
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import Traits, first_operand

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
    """What is wrong with the operation."""
    x, y, axes = op.inputs[0].type, op.output.type, op.attributes["axes"]
    found: list[str] = []
    if len(set(axes)) != len(axes) or not all(0 <= axis < x.rank for axis in axes):
        found.append(f"axes {list(axes)} are not those of {x}")
    if TensorType(x.dtype, x.shape) != TensorType(y.dtype, y.shape) or not x.dtype.is_float:
        found.append(f"gives {y} of {x}")
    return found


def _operations(op: Op) -> int:
    """Mean, differences, their squares and the factor; without a mean squares and the factor."""
    return (6 if op.attributes["centred"] else 3) * input_items(op)


def _on_blocks(op: Op) -> bool:
    """Channels are not reduced."""
    return 1 not in op.attributes["axes"]


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="Layer or RMS normalisation.",
        verify=_problems,
        evaluate=_evaluate,
        traits=Traits(
            cost=Cost(multiply_adds=None, other=_operations),
            batch=batch.axes,
            blocked=_on_blocks,
            accumulator=first_operand,
        ),
    ),
)
