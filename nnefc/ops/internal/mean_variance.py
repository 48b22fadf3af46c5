"""mean_variance_normalization: what `passes.fuse.fuse_normalization` makes of a layer
normalisation.

    mean_variance_normalization(x) {axes, epsilon, centred}

is (x - mean) / sqrt(variance + epsilon), with mean and variance along `axes`.  If it is not
`centred` the mean counts as 0: the root is that of the mean of squares (RMS normalisation).
`fused_mean_variance_normalization` applies an expression to that, as `ir.expression` says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.ir import Op, TensorType
from nnefc.ops.core.common import Array

NAME: Final = "mean_variance_normalization"
FUSED_NAME: Final = f"fused_{NAME}"


def mean_variance_normalization(op: Op, x: Array) -> Array:
    """The result."""
    axes = tuple(op.attributes["axes"])
    mean = x.mean(axes, keepdims=True) if op.attributes["centred"] else 0.0
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + op.attributes["epsilon"])


def problems(op: Op) -> list[str]:
    """What is wrong with the operation."""
    x, y, axes = op.inputs[0].type, op.output.type, op.attributes["axes"]
    found: list[str] = []
    if len(set(axes)) != len(axes) or not all(0 <= axis < x.rank for axis in axes):
        found.append(f"axes {list(axes)} are not those of {x}")
    if TensorType(x.dtype, x.shape) != TensorType(y.dtype, y.shape) or not x.dtype.is_float:
        found.append(f"gives {y} of {x}")
    return found
