"""Steps of expressions over float32, and NumPy's functions for some of their operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import DType, Step

F = DType.FLOAT32
BINARY: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "sub": np.subtract,
    "max": np.maximum,
}


def step(op: str, *operands: int, value: float | None = None) -> Step:
    """A step with a float32 result."""
    return Step(op, operands, F, value)
